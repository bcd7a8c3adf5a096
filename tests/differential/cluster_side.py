"""A cluster of two brokers with a slave each while operations are played on it: a real one, or mocketmq."""

from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack
from typing import Final, Protocol

from mocketmq import Client
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.record import WireRecord
from tests.differential.answers import Names
from tests.differential.op import Ends
from tests.differential.operations import Side
from tests.support.remoting import RemotingClient
from tests.upstream.cluster import MASTER, SLAVE, UpstreamCluster
from tests.upstream.process import HOST

A, B = "broker-a", "broker-b"
BROKERS: Final = (A, B)
SLAVE_OF: Final = {A: "slave of broker-a", B: "slave of broker-b"}
"""Names of the brokers' slaves in a play."""


class Cluster(Protocol):
    """A cluster whose brokers end and start again."""

    namesrv_port: int
    ports: Mapping[tuple[str, int], int]

    async def shut_down(self, name: str) -> None:
        """Shut a broker down."""

    async def lose(self, name: str) -> None:
        """Let a broker fall silent. Routes still name it."""

    async def forget(self, name: str) -> None:
        """Let routes leave out a broker that was lost."""

    async def start(self, name: str) -> None:
        """Start a broker that is down."""


class TheirCluster:
    """The real one. A lost broker is a frozen process; routes leave it out when its connections end."""

    def __init__(self, upstream: UpstreamCluster) -> None:
        self.namesrv_port = upstream.namesrv_port
        self.ports = upstream.ports
        self._upstream = upstream

    async def shut_down(self, name: str) -> None:
        """Shut a broker down."""
        await self._upstream.shut_down(name)

    async def lose(self, name: str) -> None:
        """Freeze a broker."""
        self._upstream.freeze(name)

    async def forget(self, name: str) -> None:
        """Kill a frozen broker, instead of waiting for 120 s."""
        await self._upstream.kill(name)

    async def start(self, name: str) -> None:
        """Start a broker that has exited."""
        await self._upstream.start(name)


class OurCluster:
    """mocketmq. A lost broker is one that has crashed."""

    def __init__(self, namesrv_port: int, ports: Mapping[tuple[str, int], int], control: Client) -> None:
        self.namesrv_port = namesrv_port
        self.ports = ports
        self._control = control

    @classmethod
    async def of(cls, namesrv_port: int, control: Client) -> "OurCluster":
        """Ask a process for the ports of its brokers."""
        ports = {}
        for name, doors in (await control.info())["doors"]["brokers"].items():
            ports[name, MASTER] = doors["broker"]["port"]
            ports[name, SLAVE] = doors["slave"]["port"]
        return cls(namesrv_port, ports, control)

    async def shut_down(self, name: str) -> None:
        """Shut a broker down."""
        await self._control.shut_down_broker(name)

    async def lose(self, name: str) -> None:
        """Crash a broker."""
        await self._control.crash_broker(name)

    async def forget(self, name: str) -> None:  # noqa: ARG002
        """Move the clock until no route names a crashed broker."""
        await self._control.advance("2m")

    async def start(self, name: str) -> None:
        """Start a broker that is down."""
        await self._control.start_broker(name)


_ELSEWHERE: Final = 1 << 62
"""Added to the log offsets of another broker's messages, which may be equal to those of the broker itself."""

_HOUR_MS: Final = 3_600_000
"""Precision of times of birth, which mocketmq moves with its clock."""


class BrokerSide(Side):
    """A broker or a slave. For static topics it also returns messages that another broker has stored."""

    own_hosts: Collection[str] = ()
    """Addresses of the broker and its slave."""
    other_names: Collection[Names] = ()
    """Names at the other brokers."""

    async def client(self, name: str = "one") -> RemotingClient:
        """Return the connection of this name, and name its address at other brokers, too."""
        client = await super().client(name)
        for names in self.other_names:
            names.add(client.address, f"<client {name} of another broker>")
        return client

    def records_of(self, answer: Command) -> list[WireRecord]:
        """Return the messages of a pull's answer."""
        return [
            record._replace(
                log_offset=record.log_offset + (0 if record.store_host in self.own_hosts else _ELSEWHERE),
                born_ms=record.born_ms - record.born_ms % _HOUR_MS,
            )
            for record in super().records_of(answer)
        ]


class ClusterSide:
    """A cluster during a play, with a :class:`Side` for each broker and slave, by its name in the play."""

    def __init__(
        self, cluster: Cluster, run: str, stack: AsyncExitStack, names: Mapping[str, Names] | None = None
    ) -> None:
        """Begin a run, or continue one with the names that it has given so far, by broker."""
        self.cluster = cluster
        self._brokers = sorted({broker for broker, _ in cluster.ports})
        self.names = names or {broker: self._named(f"_{run}") for broker in self._brokers}
        self._run = run
        self._stack = stack
        self._sides: dict[str, Side] = {}
        for broker in self._brokers:
            self.open_anew(broker)
            self._sides[SLAVE_OF[broker]] = self._side(broker, SLAVE)

    def at(self, place: str) -> Side:
        """Return the side of a broker or a slave."""
        return self._sides[place]

    def open_anew(self, broker: str) -> None:
        """Forget the connections to a broker, which ended with it."""
        self._sides[broker] = self._side(broker, MASTER)

    def _named(self, run: str) -> Names:
        """Return names for a broker and its slave, whose messages have the same offsets."""
        names = Names(run)
        for (broker, id_), port in self.cluster.ports.items():
            names.add(f"{HOST}:{port}", f"<{broker if id_ == MASTER else SLAVE_OF[broker]}>")
        return names

    def _side(self, broker: str, id_: int) -> Side:
        ends = Ends(HOST, self.cluster.namesrv_port, self.cluster.ports[broker, id_])
        side = BrokerSide(ends, self._run, self._stack)
        side.names = self.names[broker]
        side.other_names = [names for name, names in self.names.items() if name != broker]
        side.own_hosts = [f"{HOST}:{self.cluster.ports[broker, each]}" for each in (MASTER, SLAVE)]
        return side
