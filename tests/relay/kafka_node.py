"""A real Kafka broker that is also a controller (KRaft), with a small heap."""

import socket
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Final

from tests.upstream.jars import fetched

VERSION: Final = "4.1.1"
HOST: Final = "127.0.0.1"
_JAVA: Final = ("java", "-Xms128m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PORTS: Final = range(12_000, 20_000)
"""Ports below the range that systems pick from."""
_CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
_SETTINGS: Final = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
    "broker.session.timeout.ms": "6000",  # a restart after kill -9 waits for this long
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.index.size.max.bytes": str(1 << 20),
    "log.cleaner.dedupe.buffer.size": str(2 << 20),
}


def jars() -> str:
    """Return all jars of Kafka. Raises JarsMissingError."""
    return fetched(Path(__file__).parent, "kafka", VERSION)


class KafkaNode:
    """One of ``controllers`` (by number), which keeps its data in ``home`` and listens at ``addresses``."""

    def __init__(
        self,
        home: Path,
        number: int,
        controllers: Mapping[int, str],
        addresses: Mapping[str, str],
        settings: Mapping[str, str],
    ) -> None:
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None
        listeners = [f"{name}://{address}" for name, address in addresses.items()]
        whole = {
            **_SETTINGS,
            "node.id": str(number),
            "listeners": ",".join([*listeners, f"CONTROLLER://{controllers[number]}"]),
            "advertised.listeners": ",".join(listeners),
            "controller.quorum.voters": ",".join(f"{one}@{place}" for one, place in controllers.items()),
            "log.dirs": str(home / "data"),
            **settings,
        }
        self._conf = home / "server.properties"
        self._conf.write_text("".join(f"{name}={value}\n" for name, value in whole.items()))
        format_it = ("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(self._conf))
        subprocess.run([*_JAVA, "-cp", jars(), *format_it], check=True, stdout=subprocess.DEVNULL)

    def start(self) -> None:
        """Start the broker, without waiting until it is ready."""
        with (self._home / "kafka.out").open("ab") as out:
            self._process = subprocess.Popen(
                [*_JAVA, "-cp", jars(), "kafka.Kafka", str(self._conf)],
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def kill(self) -> None:
        """Send SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def check(self) -> None:
        """Check that the broker has not exited by itself."""
        assert self._process is None or self._process.poll() is None, (self._home / "kafka.out").read_text()


def free_addresses(count: int) -> Sequence[str]:
    """Return this many free addresses to listen at."""
    while True:
        ports = Random().sample(_PORTS, count)
        if _are_free(ports):
            return [f"{HOST}:{port}" for port in ports]


def _are_free(ports: Collection[int]) -> bool:
    for port in ports:
        with closing(socket.socket()) as one:
            try:
                one.bind((HOST, port))
            except OSError:
                return False
    return True
