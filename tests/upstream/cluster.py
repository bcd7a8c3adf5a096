"""A real RocketMQ cluster: a name server, and brokers with a slave each, which tests end and start again."""

import asyncio
import shutil
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from mocketmq.message.names import CLUSTER
from mocketmq.remoting.wire import fastjson
from mocketmq.remoting.wire.codes import RequestCode
from tests.support.patience import HANGING_S
from tests.support.remoting import ClosedError, connected
from tests.upstream.jars import class_path
from tests.upstream.process import (
    HOST,
    UpstreamError,
    free_ports,
    java_process,
    printed,
    properties_file,
    require_room,
)

MASTER: Final = 0
SLAVE: Final = 1
"""Ids of a broker and of its slave."""
_OF_SLAVES: Final = {
    "brokerRole": "SLAVE",
    "registerNameServerPeriod": "10000",  # the shortest, to learn soon that the broker is back
}
_POLL_S: Final = 0.1


class UpstreamCluster:
    """A running cluster, started by :func:`running_cluster`."""

    def __init__(
        self, home: Path, jars: str, ports: Mapping[tuple[str, int], int], namesrv_port: int
    ) -> None:
        self.namesrv_port = namesrv_port
        self.ports = ports
        """Ports by the broker's name and the id, of itself or its slave."""
        self._home = home
        self._jars = jars
        self._stack = AsyncExitStack()
        self._processes: dict[tuple[str, int], Process] = {}

    async def start(self, name: str, id_: int = MASTER) -> None:
        """Start a broker or its slave with the data that it has, and wait until it serves clients.

        Raises UpstreamError if it exits.
        """
        home, namesrv = self.home_of(name, id_), f"{HOST}:{self.namesrv_port}"
        arguments = ("-c", f"{home}/broker.properties", "-n", namesrv)
        if (frozen := self._processes.get((name, id_))) and frozen.returncode is None:
            await self.kill(name)
        process = await self._stack.enter_async_context(
            java_process("broker", self._jars, home, arguments, ())
        )
        self._processes[name, id_] = process
        async with asyncio.timeout(HANGING_S):
            while not await self._serves(name, id_):
                if process.returncode is not None:
                    raise UpstreamError(f"{name} exited before it was ready")
                await asyncio.sleep(_POLL_S)

    async def shut_down(self, name: str) -> None:
        """Let a broker shut down, and wait until it has exited."""
        await self._end(name, signal.SIGTERM)

    async def kill(self, name: str) -> None:
        """Kill a broker, whose connections end then."""
        await self._end(name, signal.SIGKILL)

    def freeze(self, name: str) -> None:
        """Stop a broker, which answers nothing from then on. Its connections stay."""
        self._processes[name, MASTER].send_signal(signal.SIGSTOP)

    def home_of(self, name: str, id_: int) -> Path:
        """Return the folder with the data and the logs of a broker or its slave."""
        return self._home / f"{name}-{id_}"

    async def _end(self, name: str, number: signal.Signals) -> None:
        process = self._processes[name, MASTER]
        process.send_signal(number)
        async with asyncio.timeout(HANGING_S):
            await process.wait()

    async def _serves(self, name: str, id_: int) -> bool:
        """Whether the name server lists it, and it answers."""
        try:
            async with connected(HOST, self.namesrv_port) as client:
                answer = await client.call(RequestCode.GET_BROKER_CLUSTER_INFO)
            listed = fastjson.loads(answer.body)["brokerAddrTable"].get(name, {"brokerAddrs": {}})
            if str(id_) not in listed["brokerAddrs"]:
                return False
            async with connected(HOST, self.ports[name, id_]) as client:
                return not (await client.call(RequestCode.GET_ALL_TOPIC_CONFIG)).code
        except (OSError, ClosedError):
            return False

    async def start_slaves(self) -> None:
        """Start the slaves of all brokers, with the topics, groups and offsets that the brokers have saved.

        A slave copies these only once a minute. The messages follow by replication.
        """
        slaves = [name for name, id_ in self.ports if id_ == SLAVE]
        for name in slaves:
            source, target = (self.home_of(name, id_) / "store" / "config" for id_ in (MASTER, SLAVE))
            await asyncio.to_thread(shutil.copytree, source, target)
        await asyncio.gather(*(self.start(name, SLAVE) for name in slaves))

    async def open(self, settings: Mapping[str, str], of_name_server: Mapping[str, str]) -> None:
        """Start the name server and the brokers."""
        namesrv = properties_file(
            self._home / "namesrv.properties",
            listenPort=str(self.namesrv_port),
            kvConfigPath=str(self._home / "kv.json"),
            **of_name_server,
        )
        await self._stack.enter_async_context(
            java_process("namesrv", self._jars, self._home, ("-c", namesrv), ())
        )
        for name, id_ in self.ports:
            self._configure(name, id_, settings)
        await asyncio.gather(*(self.start(name) for name, id_ in self.ports if id_ == MASTER))

    def _configure(self, name: str, id_: int, settings: Mapping[str, str]) -> None:
        home = self.home_of(name, id_)
        (home / "conf").mkdir(parents=True)
        properties_file(
            home / "broker.properties",
            brokerName=name,
            brokerId=str(id_),
            brokerClusterName=CLUSTER,
            brokerIP1=HOST,
            brokerIP2=HOST,
            listenPort=str(self.ports[name, id_]),
            storePathRootDir=f"{home}/store",
            storePathCommitLog=f"{home}/store/commitlog",
            slaveReadEnable="true",
            **(_OF_SLAVES if id_ == SLAVE else {}),
            **settings,
        )

    async def __aenter__(self) -> "UpstreamCluster":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()


@asynccontextmanager
async def running_cluster(
    home: Path,
    version: str,
    names: Sequence[str],
    settings: Mapping[str, str],
    of_name_server: Mapping[str, str] = {},
) -> AsyncIterator[UpstreamCluster]:
    """Run brokers of these names, without their slaves at first, with data in ``home``; kill all on exit.

    Raises JarsMissingError, UpstreamError.
    """
    jars = await asyncio.to_thread(class_path, version)
    (home / "conf").mkdir(parents=True)
    require_room(home, version)
    places = [(name, id_) for name in names for id_ in (MASTER, SLAVE)]
    namesrv_port, *ports = free_ports(1 + len(places))
    async with UpstreamCluster(home, jars, dict(zip(places, ports, strict=True)), namesrv_port) as cluster:
        try:
            await cluster.open(settings, of_name_server)
        except (TimeoutError, UpstreamError) as error:
            for folder in (home, *(cluster.home_of(*place) for place in places)):
                error.add_note(printed(folder))
            raise
        yield cluster
