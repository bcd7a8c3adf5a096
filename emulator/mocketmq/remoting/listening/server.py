"""Listen for RocketMQ clients: as name server, as broker, and on the broker's VIP channel.

Each port serves every request: the codes of name server and broker do not overlap.
"""

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from mocketmq.access.access import Access
from mocketmq.broker.broker import Broker
from mocketmq.connections.freed_memory import give_back
from mocketmq.connections.tls import Tls
from mocketmq.doors import Door, with_port
from mocketmq.faults.rule import Absent
from mocketmq.gate import Gate
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.dispatcher import Dispatcher
from mocketmq.remoting.faulty_request import DOOR
from mocketmq.remoting.guard import Guard
from mocketmq.remoting.listening.advertised_address import (
    AdvertisedAddress,
    Advertiser,
    container_gateway,
)
from mocketmq.remoting.listening.connection import Connection, ConnectionHub
from mocketmq.remoting.listening.ports import Ports, cannot_listen
from mocketmq.remoting.requests.families import REQUESTS
from mocketmq.settings import Settings

log = logging.getLogger(__name__)

GRACE_S: Final = 2.0
"""Real seconds for requests in progress to finish when the server stops."""
TICK_S: Final = 10.0
IDLE_TICKS: Final = 12
"""After so many ticks without a byte a connection is closed: 120 s, as upstream."""


class RemotingServer:
    """Started and closed by the app.

    Without ``access`` everybody may do everything.
    """

    def __init__(
        self, broker: Broker, settings: Settings, ports: Ports, tls: Tls, access: Access | None = None
    ) -> None:
        self.namesrv_port = ports.namesrv_port
        self.broker_port = ports.broker_port
        self.vip_port = ports.vip_port
        guard = None if access is None else Guard(access)
        self.dispatcher = Dispatcher(broker, settings, REQUESTS, guard)
        self._broker = broker
        self._settings = settings
        self._ports = ports
        self._ticking: asyncio.TimerHandle | None = None
        self._advertiser = Advertiser(settings.advertise, container_gateway())
        self._hub = ConnectionHub(self.dispatcher, self._advertised, self._gone, tls)
        make = partial(Connection, self._hub)
        self._gates = {
            port: Gate(make, partial(self._cut, port))
            for port in (self.broker_port, self.vip_port, self.namesrv_port)
            if port
        }

    @property
    def namesrv_address(self) -> str:
        """``host:port`` of the name server."""
        return with_port(self._settings.host, self.namesrv_port)

    @property
    def broker_address(self) -> str:
        """``host:port`` of the broker."""
        return with_port(self._settings.host, self.broker_port)

    @property
    def doors(self) -> dict[str, Door]:
        """The open ports."""
        ports = {"namesrv": self.namesrv_port, "broker": self.broker_port, "vip": self.vip_port}
        return {
            name: Door(port, with_port(self._settings.host, port)) for name, port in ports.items() if port
        }

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._hub.connections)

    @property
    def held_bytes(self) -> int:
        """Memory of incomplete frames and of requests in work."""
        return self._hub.budget.held

    @property
    def unread_bytes(self) -> int:
        """Answers to clients that do not read them."""
        return sum(self._hub.unread.values())

    def metrics(self) -> Iterator[Any]:
        """The door's metrics, for Prometheus."""
        from mocketmq.remoting.listening.metrics import metric_families  # noqa: PLC0415 - a start does not need it

        return metric_families(
            self.dispatcher.answered,
            connections=self.connections,
            held_bytes=self.held_bytes,
            unread_bytes=self.unread_bytes,
        )

    async def start(self) -> None:
        """Accept clients on every port. Raises ListenError."""
        for sock in self._ports.sockets:
            port = sock.getsockname()[1]
            try:
                await self._gates[port].listen(sock)
            except OSError as error:  # somebody else has listened there since it was bound
                option = "--namesrv-port" if port == self.namesrv_port else "--broker-port"
                raise cannot_listen(self._settings.host, port, error, option) from error
        for port, gate in self._gates.items():
            absent: Absent = "name-server-away" if port == self.namesrv_port else "broker-away"
            await self._broker.outage.add(absent, DOOR, gate)
        self._tick_later()

    def _advertised(self, local: str, peer: str) -> AdvertisedAddress:
        return self._advertiser.address_for(local, peer, self.broker_port)

    def _cut(self, port: int) -> None:
        for connection in list(self._hub.connections):
            if connection.port == port:
                connection.abort("injected fault: port closed", logging.INFO)

    def _gone(self, channel: RemotingChannel) -> None:
        self._broker.registry.clients.gone(channel)

    def _tick_later(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._tick_later()
        self._look_after()

    def _look_after(self) -> None:
        """Close stalled connections, and return freed memory to the system after a flood."""
        for connection in list(self._hub.connections):
            connection.quiet += 1
            if connection.quiet >= IDLE_TICKS:
                connection.abort("idle for 120 s", logging.INFO)
            elif connection.is_stalled and self._hub.budget.is_spent:
                connection.abort("out of memory budget while its frame is incomplete")

        if self._hub.has_paused:
            self._hub.has_paused = False
            give_back()

    async def close(self) -> None:
        """Stop accepting and reading, answer what was read, then close. May be called twice."""
        if self._ticking is not None:
            self._ticking.cancel()
        for gate in self._gates.values():
            gate.close()
        connections = [*self._hub.connections, *self._hub.leaving]
        closing = [asyncio.create_task(connection.close()) for connection in connections]
        if closing:
            _done, late = await asyncio.wait(closing, timeout=GRACE_S)
            if late:
                for connection in connections:
                    connection.let_go()
        await asyncio.gather(*closing)
