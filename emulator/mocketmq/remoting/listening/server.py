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
from mocketmq.doors import Door, with_port
from mocketmq.errors import ListenError
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.dispatcher import Dispatcher
from mocketmq.remoting.guard import Guard
from mocketmq.remoting.listening.advertised_address import (
    AdvertisedAddress,
    Advertiser,
    container_gateway,
)
from mocketmq.remoting.listening.certificate import certificate_of
from mocketmq.remoting.listening.connection import Connection, ConnectionHub
from mocketmq.remoting.listening.freed_memory import give_back
from mocketmq.remoting.listening.tls import Tls
from mocketmq.remoting.requests.families import REQUESTS
from mocketmq.settings import Settings

log = logging.getLogger(__name__)

GRACE_S: Final = 2.0
"""Real seconds that running requests have to finish when the server stops."""
BACKLOG: Final = 2_048
"""Connections that may wait to be accepted."""
VIP_OFFSET: Final = -2
"""Added to the broker's port for its VIP channel, as upstream."""
TICK_S: Final = 10.0
IDLE_TICKS: Final = 12
"""After so many ticks without a byte a connection is closed: 120 s, as upstream."""
_TRIES: Final = 16


class RemotingServer:
    """Started and closed by the app. A port that the system picks is 0 until the start.

    Without ``access`` everybody may do everything. Raises SettingError if the certificate cannot be used.
    """

    def __init__(self, broker: Broker, settings: Settings, access: Access | None = None) -> None:
        self.namesrv_port = settings.namesrv_port
        self.broker_port = settings.broker_port
        self.vip_port: int | None = None
        guard = None if access is None else Guard(access)
        self.dispatcher = Dispatcher(broker, settings, REQUESTS, guard)
        self._broker = broker
        self._settings = settings
        self._servers: list[asyncio.Server] = []
        self._ticking: asyncio.TimerHandle | None = None
        self._advertiser = Advertiser(settings.advertise, container_gateway())
        tls = Tls(settings.tls, certificate_of(settings))
        self._hub = ConnectionHub(self.dispatcher, self._advertised, self._gone, tls)

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
        """Open every port, or none. Raises ListenError."""
        try:
            await self._listen_as_broker()
            self.namesrv_port = _port_of(await self._listen(self.namesrv_port, "--namesrv-port"))
        except BaseException:
            await self.close()
            raise
        self._tick_later()

    async def _listen_as_broker(self) -> None:
        """Open the broker's port and its VIP channel.

        If a fixed port's VIP channel is taken the broker starts without; other ports are tried in pairs.
        """
        fixed = self._settings.broker_port
        for is_last in (*[False] * _TRIES, True):
            server = await self._listen(fixed, "--broker-port")
            self.broker_port = _port_of(server)
            try:
                self.vip_port = _port_of(
                    await self._listen(max(self.broker_port + VIP_OFFSET, 1), "--broker-port")
                )
                return
            except ListenError as error:
                if fixed:
                    log.warning("the broker is without VIP channel: %s", error)
                if fixed or is_last:
                    return
            self._servers.remove(server)
            server.close()

    async def _listen(self, port: int, option: str) -> asyncio.Server:
        host, loop = self._settings.host, asyncio.get_running_loop()
        try:
            server = await loop.create_server(partial(Connection, self._hub), host, port, backlog=BACKLOG)
        except OSError as error:
            raise ListenError(
                f"cannot listen on {with_port(host, port)} for RocketMQ clients: {error.strerror or error};"
                f" choose another port by {option}, or none by --no-remoting"
            ) from error
        self._servers.append(server)
        return server

    def _advertised(self, local: str, peer: str) -> AdvertisedAddress:
        advertised = self._advertiser.address_for(local, peer, self.broker_port)
        self._broker.looking.histories.hosts.add(advertised.store_host)
        return advertised

    def _gone(self, channel: RemotingChannel) -> None:
        self._broker.registry.clients.gone(channel)

    def _tick_later(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._tick_later()
        self._look_after()

    def _look_after(self) -> None:
        """Close connections that stand still, and give freed memory back after a flood."""
        for connection in list(self._hub.connections):
            connection.quiet += 1
            if connection.quiet >= IDLE_TICKS:
                connection.abort("nothing came in for 120 s", logging.INFO)
            elif connection.is_stalled and self._hub.budget.is_spent:
                connection.abort("the memory that its unfinished frame takes is needed")

        if self._hub.has_paused:
            self._hub.has_paused = False
            give_back()

    async def close(self) -> None:
        """Stop accepting and reading, answer what was read, then close. May be called twice."""
        if self._ticking is not None:
            self._ticking.cancel()
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        connections = [*self._hub.connections, *self._hub.leaving]
        closing = [asyncio.create_task(connection.close()) for connection in connections]
        if closing:
            _done, late = await asyncio.wait(closing, timeout=GRACE_S)
            if late:
                for connection in connections:
                    connection.let_go()
        await asyncio.gather(*closing)


def _port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port
