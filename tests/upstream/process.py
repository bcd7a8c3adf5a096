"""A real RocketMQ: name server and broker, each a process with a small heap, on free ports.

With a proxy, the broker is in the process of the proxy, as in its local mode, unless the caller wants them
apart.
"""

import asyncio
import json
import shutil
import socket
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from mocketmq.calling.call import Credentials
from mocketmq.message.names import BROKER, CLUSTER
from mocketmq.remoting.wire.codes import RequestCode
from tests.support.network import reserve
from tests.support.patience import HANGING_S
from tests.support.remoting import ClosedError, connected
from tests.upstream.jars import class_path

HOST = "127.0.0.1"
HEAPS = {
    "namesrv": ("-Xms16m", "-Xmx64m"),
    "broker": ("-Xms128m", "-Xmx256m"),
    "proxy": ("-Xms128m", "-Xmx384m"),
}
"""Smallest heaps with which both processes start and accept messages of 4 MiB."""

_JAVA = (
    "-XX:+UseSerialGC",
    "-XX:MaxDirectMemorySize=1g",  # 5.x sets 4 MiB aside for each thread, and touches little of it
    "--add-opens=java.base/java.nio=ALL-UNNAMED",  # RocketMQ unmaps its files by reflection
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",  # likewise the files of a deleted topic
    "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",  # 4.x heeds it; 5.x allows no more than FULLEST_DISK
)
FULLEST_DISK = 0.90
"""Share of disk use above which 5.x refuses messages, which would make every comparison fail."""

_CLASSES = {
    "namesrv": "org.apache.rocketmq.namesrv.NamesrvStartup",
    "broker": "org.apache.rocketmq.broker.BrokerStartup",
    "proxy": "org.apache.rocketmq.proxy.ProxyStartup",
}
_LOGBACK = """<configuration>
  <appender name="file" class="ch.qos.logback.core.FileAppender">
    <file>{log}</file>
    <encoder><pattern>%d %p %t %c - %m%n</pattern></encoder>
  </appender>
  {loggers}
  <root level="WARN"><appender-ref ref="file"/></root>
</configuration>
"""
_POLL_S = 0.02
_PORTS = range(20_000, 32_000, 4)  # above those of quiet_port
"""Ports below the range that systems pick from, so that nobody gets a port before RocketMQ."""

SMALL: Mapping[str, str] = {
    "mappedFileSizeCommitLog": str(64 << 20),
    "mappedFileSizeConsumeQueue": str(20 * 10_000),
    "maxHashSlotNum": "10000",
    "maxIndexNum": "40000",
}
"""Settings with which files need little space."""


class Upstream(NamedTuple):
    """A running RocketMQ. Without a proxy, ``grpc_port`` is 0."""

    version: str
    namesrv_port: int
    broker_port: int
    pids: tuple[int, int]
    grpc_port: int = 0


class UpstreamError(Exception):
    """RocketMQ did not start."""


@asynccontextmanager
async def running_upstream(
    home: Path,
    version: str,
    settings: Mapping[str, str],
    proxy: Mapping[str, Any] | None = None,
    java: Sequence[str] = (),
    account: Credentials | None = None,
    levels: Mapping[str, str] = {},
    *,
    has_own_proxy: bool = False,
) -> AsyncIterator[Upstream]:
    """Run a RocketMQ with its data in ``home``, with settings of its broker, and of its proxy if given.

    With ``has_own_proxy``, the proxy is a process of its own, as in its cluster mode, not the broker's.
    ``java`` has more Java options, ``account`` is used to ask whether it is ready, and ``levels`` sets
    loggers that log more than warnings. It is killed on exit, and its store is removed.
    Raises JarsMissingError, UpstreamError.
    """
    jars = await asyncio.to_thread(class_path, version)
    namesrv_port, broker_port, grpc_port, access_port = free_ports(4)
    (home / "conf").mkdir(parents=True)
    require_room(home, version)
    store, namesrv = home / "store", f"{HOST}:{namesrv_port}"
    broker_conf = properties_file(
        home / "broker.properties",
        brokerName=BROKER,
        brokerClusterName=CLUSTER,
        brokerIP1=HOST,
        brokerIP2=HOST,
        listenPort=str(broker_port),
        namesrvAddr=namesrv,
        storePathRootDir=str(store),
        storePathCommitLog=str(store / "commitlog"),
        **settings,
    )
    namesrv_conf = properties_file(
        home / "namesrv.properties", listenPort=str(namesrv_port), kvConfigPath=str(home / "kv.json")
    )
    commands: dict[str, tuple[str, ...]] = {"namesrv": ("-c", namesrv_conf), "broker": ("-c", broker_conf)}
    if proxy is not None:
        conf = {"grpcServerPort": grpc_port, "remotingListenPort": access_port, **proxy}
        (home / "proxy.json").write_text(json.dumps({"rocketMQClusterName": CLUSTER, **conf}))
        place = ("-pm", "cluster") if has_own_proxy else ("-pm", "local", "-bc", broker_conf)
        if not has_own_proxy:
            del commands["broker"]
        commands["proxy"] = (*place, "-n", namesrv, "-pc", f"{home}/proxy.json")
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, store, ignore_errors=True)  # hundreds of megabytes; logs stay
        started: list[Process] = []
        try:
            for name, arguments in commands.items():
                if name == "proxy" and has_own_proxy:  # it exits where the name server knows no broker yet
                    await ready(namesrv_port, broker_port, started, account=account)
                started.append(
                    await stack.enter_async_context(java_process(name, jars, home, arguments, java, levels))
                )
            await ready(namesrv_port, broker_port, started, 0 if proxy is None else grpc_port, account)
        except (TimeoutError, UpstreamError) as error:
            error.add_note(printed(home))
            raise
        pids = started[0].pid, started[1].pid
        yield Upstream(version, namesrv_port, broker_port, pids, 0 if proxy is None else grpc_port)


def require_room(home: Path, version: str) -> None:
    """Raise UpstreamError if this version would refuse messages, as its disk is too full."""
    disk = shutil.disk_usage(home)
    if version.startswith("5.") and disk.used > FULLEST_DISK * (disk.used + disk.free):
        raise UpstreamError(
            f"RocketMQ {version} refuses messages on a disk over {FULLEST_DISK:.0%} full: make room"
        )


@asynccontextmanager
async def broker_again(home: Path, version: str, java: Sequence[str] = ()) -> AsyncIterator[Process]:
    """Restart the killed broker, without waiting until it is ready."""
    jars = await asyncio.to_thread(class_path, version)
    arguments = ("-c", str(home / "broker.properties"))
    async with java_process("broker", jars, home, arguments, java) as process:
        yield process


def properties_file(path: Path, **settings: str) -> str:
    """Write a file of settings, and return its path."""
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return str(path)


@asynccontextmanager
async def java_process(
    name: str,
    jars: str,
    home: Path,
    arguments: Sequence[str],
    options: Sequence[str],
    levels: Mapping[str, str] = {},
) -> AsyncIterator[Process]:
    """Start the name server, the broker or the proxy, without waiting until it is ready."""
    loggers = "".join(f'<logger name="{logger}" level="{level}"/>' for logger, level in levels.items())
    logback = _LOGBACK.format(log=home / f"{name}.log", loggers=loggers)
    (home / "conf" / f"logback_{name}.xml").write_text(logback)
    with (home / f"{name}.out").open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *("java", *HEAPS[name], *_JAVA, *options, f"-Duser.home={home}", f"-Drocketmq.home.dir={home}"),
            f"-Drmq.logback.configurationFile={home}/conf/logback_{name}.xml",  # of 5.x
            *("-cp", jars, _CLASSES[name], *arguments),
            cwd=home,
            stdin=DEVNULL,
            stdout=out,
            stderr=STDOUT,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()  # its data is no longer needed
        await process.wait()


async def ready(
    namesrv_port: int,
    broker_port: int,
    processes: Sequence[Process] = (),
    grpc_port: int = 0,
    account: Credentials | None = None,
) -> None:
    """Wait until the name server knows where to create topics, and broker and proxy (if any) answer.

    Raises UpstreamError if one of the processes exits before.
    """
    async with asyncio.timeout(HANGING_S):
        while not (await _knows_broker(namesrv_port, broker_port, account) and _listens(grpc_port)):
            if any(process.returncode is not None for process in processes):
                raise UpstreamError("RocketMQ exited before it was ready")
            await asyncio.sleep(_POLL_S)


def printed(home: Path) -> str:
    """Return the output of the processes."""
    return "\n".join(path.read_text() for path in sorted(home.glob("*.out")))


async def _knows_broker(namesrv_port: int, broker_port: int, account: Credentials | None) -> bool:
    try:
        async with connected(HOST, namesrv_port) as client:
            route = await client.call(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"})
        if route.code:
            return False
        async with connected(HOST, broker_port, account) as client:
            return not (await client.call(RequestCode.GET_ALL_TOPIC_CONFIG)).code
    except (OSError, ClosedError):  # a killed process may disappear in between
        return False


def free_ports(count: int) -> tuple[int, ...]:
    """Return ports that brokers can have, which also use port - 2 and port + 1.

    RocketMQ listens on them seconds later, so they are reserved until this process ends.
    """
    while True:
        ports = tuple(Random().sample(_PORTS, count))
        if all(_is_free(port + shift) for port in ports for shift in (-2, 0, 1)) and reserve(*ports):
            return ports


def _listens(port: int) -> bool:
    """Whether a process listens on this port; 0 means that no port is needed."""
    if not port:
        return True
    with closing(socket.socket()) as one:
        return one.connect_ex((HOST, port)) == 0


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as one, suppress(OSError):
        one.bind((HOST, port))
        return True
    return False
