"""A real Kafka of one node, which keeps its own metadata (KRaft), with a small heap; and relays before it."""

import asyncio
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from mocketmq.connections.certificate import _self_signed
from tests.support.patience import HANGING_S
from tests.support.process import clean_environment
from tests.upstream.jars import fetched

VERSION: Final = "4.1.1"
HOST: Final = "127.0.0.1"
SESSION_S: Final = 6
"""Seconds without a heartbeat after which a relay is taken for dead."""
_JAVA: Final = ("java", "-Xms128m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PORTS: Final = range(12_000, 20_000)
"""Below those that systems pick."""
_CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
_SETTINGS: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
    "listener.name.secure.ssl.keystore.type": "PEM",
    "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.secure.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_relay="secret";'
    ),
    "broker.session.timeout.ms": "6000",  # which a restart after kill -9 waits for
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.index.size.max.bytes": str(1 << 20),
    "log.cleaner.dedupe.buffer.size": str(2 << 20),
}


class RealKafka:
    """Made by :func:`running_kafka`. At ``secure`` it speaks TLS to the user relay, password secret."""

    def __init__(self, jars: str, home: Path, ports: Sequence[int]) -> None:
        self.bootstrap, controller, self.secure = (f"{HOST}:{port}" for port in ports)
        self.certificate = home / "cert.pem"
        self._jars = jars
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None
        settings = {
            **_SETTINGS,
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller},SECURE://{self.secure}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap},SECURE://{self.secure}",
            "controller.quorum.voters": f"1@{controller}",
            "listener.name.secure.ssl.keystore.location": str(home / "both.pem"),
            "log.dirs": str(home / "data"),
        }
        certificate, key = _self_signed([HOST])
        self.certificate.write_bytes(certificate)
        (home / "both.pem").write_bytes(key + certificate)
        self._conf = home / "server.properties"
        self._conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        format_it = ("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(self._conf))
        subprocess.run([*_JAVA, "-cp", jars, *format_it], check=True, stdout=subprocess.DEVNULL)

    def start(self) -> None:
        """Start it; it may not be ready yet."""
        with (self._home / "kafka.out").open("ab") as out:
            self._process = subprocess.Popen(
                [*_JAVA, "-cp", self._jars, "kafka.Kafka", str(self._conf)],
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def kill(self) -> None:
        """``kill -9``."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    async def ready(self) -> None:
        """Wait until it answers."""
        async with asyncio.timeout(HANGING_S):
            while True:
                assert self._process is not None
                assert self._process.poll() is None, (self._home / "kafka.out").read_text()
                with suppress(KafkaError):
                    async with self.admin() as admin:
                        if (await admin.describe_cluster())["brokers"]:
                            return
                await asyncio.sleep(0.1)

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        """A client that makes topics."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            await admin.start()
            yield admin
        finally:
            await admin.close()

    async def make_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Make a topic; its settings have underscores for points."""
        plain = {key.replace("_", "."): value for key, value in configs.items()}
        async with self.admin() as admin:
            answer = await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=plain)])
            assert [code for _, code, _ in answer.topic_errors] == [0], answer
            while name not in await admin.list_topics():  # noqa: ASYNC110 - the controller knows it first
                await asyncio.sleep(0.05)

    @asynccontextmanager
    async def producer(self) -> AsyncIterator[AIOKafkaProducer]:
        """A client that sends."""
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap, acks="all") as producer:
            yield producer

    @asynccontextmanager
    async def reader(self, topic: str, partitions: int = 1) -> AsyncIterator["Reader"]:
        """A client that reads the topic from its beginning; of transactions, what was committed."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        places = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(places)
        async with consumer:
            yield Reader(consumer, places)


class Reader:
    """What is in a topic; ``records`` is what has been read."""

    def __init__(self, consumer: AIOKafkaConsumer, places: list[TopicPartition]) -> None:
        self.records: list[ConsumerRecord] = []
        self._consumer = consumer
        self._places = places

    async def until(self, count: int) -> list[ConsumerRecord]:
        """Read until there are so many different values."""
        async with asyncio.timeout(HANGING_S):
            while len({record.value for record in self.records}) < count:
                await self._read()
        return self.records

    async def to_end(self) -> list[ConsumerRecord]:
        """Read all that there is now."""
        async with asyncio.timeout(HANGING_S):
            for place, end in (await self._consumer.end_offsets(self._places)).items():
                while await self._consumer.position(place) < end:
                    await self._read()
        return self.records

    async def _read(self) -> None:
        for some in (await self._consumer.getmany(timeout_ms=200)).values():
            self.records += some


class RelayProcess:
    """A running relay. Made by :func:`relay_process`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.lines: list[str] = []
        self.said: list[str] = []
        self._news = asyncio.Event()
        self._reading = asyncio.gather(
            self._read(process.stdout, self.lines), self._read(process.stderr, self.said)
        )

    async def _read(self, stream: asyncio.StreamReader | None, lines: list[str]) -> None:
        assert stream is not None
        async for line in stream:
            lines.append(line.decode().rstrip())
            self._news.set()

    async def tells(self, text: str, count: int = 1) -> None:
        """Wait until so many lines have this in them, on stdout or stderr."""
        async with asyncio.timeout(HANGING_S):
            while sum(text in line for line in (*self.lines, *self.said)) < count:
                assert not self._process.stdout or not self._process.stdout.at_eof(), self.said
                self._news.clear()
                await self._news.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    async def stop(self) -> None:
        """SIGTERM; it ends in order."""
        self.signal(signal.SIGTERM)
        async with asyncio.timeout(HANGING_S):
            assert await self._process.wait() == 0, self.said
            await self._reading

    async def kill(self) -> None:
        """``kill -9``."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._reading


def _command(kafka: RealKafka, topic: str) -> tuple[str, ...]:
    relay = (sys.executable, "-m", "mocketmq", "relay", "kafka")
    return (*relay, "--bootstrap", kafka.bootstrap, "--topic", topic)


def ended_relay(kafka: RealKafka, topic: str, *args: str) -> tuple[int, str]:
    """Exit code and stderr of a relay that does not start."""
    ended = subprocess.run(
        [*_command(kafka, topic), *args],
        env=clean_environment(),
        check=False,
        timeout=HANGING_S,
        text=True,
        capture_output=True,
    )
    return ended.returncode, ended.stderr


@asynccontextmanager
async def relay_process(kafka: RealKafka, topic: str, *args: str) -> AsyncIterator[RelayProcess]:
    """A relay of the topic, once it has told what it serves; killed at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *_command(kafka, topic),
        *("--kafka-option", f"session_timeout_ms={SESSION_S * 1_000}"),
        *("--kafka-option", "heartbeat_interval_ms=1000", *args),
        env=clean_environment(),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    relay = RelayProcess(process)
    try:
        await relay.tells("serving")
        yield relay
    finally:
        await relay.kill()


@contextmanager
def running_kafka(home: Path) -> Iterator[RealKafka]:
    """A Kafka that keeps everything in ``home``, killed at the end. Raises JarsMissingError."""
    jars = fetched(Path(__file__).parent, "kafka", VERSION)
    kafka = RealKafka(jars, home, _free_ports())
    kafka.start()
    try:
        yield kafka
    finally:
        kafka.kill()


def _free_ports() -> Sequence[int]:
    while True:
        ports = Random().sample(_PORTS, 3)
        if all(map(_is_free, ports)):
            return ports


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as one, suppress(OSError):
        one.bind((HOST, port))
        return True
    return False
