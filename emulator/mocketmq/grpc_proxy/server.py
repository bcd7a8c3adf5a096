"""The gRPC listener. Protobuf, hpack and the handlers are imported when the first client connects."""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple

from mocketmq.access.access import Access
from mocketmq.broker.broker import Broker
from mocketmq.broker.registry.brokers import RegisteredBroker
from mocketmq.connections.freed_memory import give_back
from mocketmq.connections.tls import Tls
from mocketmq.door_tap import DoorTap
from mocketmq.errors import ListenError
from mocketmq.grpc_proxy.client_limits import CHECKED_PER_TURN, GRACE_S, IDLE_S
from mocketmq.grpc_proxy.connection import GrpcConnection
from mocketmq.grpc_proxy.fault_injection import DOOR, operations
from mocketmq.grpc_proxy.memory import Memory
from mocketmq.hosts import port_or_host, with_port
from mocketmq.open_ports import OpenPort
from mocketmq.port_listener import PortListener
from mocketmq.settings import Settings

log = logging.getLogger(__name__)

BETWEEN_BROKERS: Final = 10
"""Difference between the ports of two successive brokers' endpoints."""
_TRIES: Final = 16
TICK_S: Final = 5.0
IDLE_TICKS: Final = int(IDLE_S / TICK_S)


class _Endpoint(NamedTuple):
    """A port for clients, of the whole cluster or of the broker ``local``."""

    local: RegisteredBroker | None
    listener: PortListener


class GrpcServer:
    """The gRPC server, which the app starts and closes. Without ``access``, clients need no permissions.

    The server has one endpoint or, if the setting ``proxy_mode`` is ``local``, an endpoint for each broker.
    The endpoint of a broker that is down is closed. A broker that is shut down tells its clients to
    reconnect. A broker that is cut off from clients does not read their requests.
    """

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        tls: Tls,
        access: Access | None = None,
        tap: DoorTap | None = None,
    ) -> None:
        self._tap = tap
        self.port = settings.grpc_port
        self._broker = broker
        self._settings = settings
        self._access = access
        self.memory = Memory()
        self._ticking: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self._brokers = broker.registry.brokers
        self._leaving: frozenset[int] = frozenset()  # indexes of brokers that are shut down
        locals_: Iterable[RegisteredBroker | None] = (
            self._brokers if settings.proxy_mode == "local" else [None]
        )
        self._endpoints = [
            _Endpoint(
                each,
                PortListener(
                    partial(GrpcConnection, tls, self.memory, self._protocol, tap, each),
                    partial(self._cut, each),
                ),
            )
            for each in locals_
        ]
        self._engine: asyncio.Task[Any] | None = None

    @property
    def door(self) -> OpenPort:
        """The open port."""
        return OpenPort(self.port, with_port(self._settings.host, self.port))

    @property
    def broker_doors(self) -> dict[str, OpenPort]:
        """The open port of each broker's endpoint, by the broker's name; empty if all share an endpoint."""
        return {
            each.name: OpenPort(each.grpc_port, with_port(self._settings.host, each.grpc_port))
            for each in self._brokers
            if each.grpc_port is not None
        }

    async def start(self) -> None:
        """Accept clients. Raises ListenError."""
        await self._listen()
        self._broker.faults.declare(DOOR, operations)
        self._brokers.on_changed.append(self._brokers_changed)
        for local, listener in self._endpoints:
            name = self._brokers.only_name if local is None else local.name
            is_down = (lambda: False) if local is None else partial(_is_down, local)
            await self._broker.outage.add_listener("broker-away", DOOR, listener, name, is_down)
        self._tick_later()

    async def _listen(self) -> None:
        """Open all endpoints on evenly spaced ports. If no port is configured, find a series of free ones."""
        host, fixed = self._settings.host, self.port
        declared = dict(zip(self._brokers.names, self._settings.declared_brokers, strict=False))
        for is_last in (*[False] * _TRIES, True):
            port = fixed
            try:
                for index, (local, listener) in enumerate(self._endpoints):
                    port = self.port + index * BETWEEN_BROKERS if index else fixed
                    if local is not None and local.name in declared:
                        port = declared[local.name].grpc_port or port
                    opened = await listener.listen_at(host, port)
                    if not index:
                        self.port = opened
                    if local is not None:
                        local.grpc_port = opened
            except (OSError, OverflowError) as error:
                for _, listener in self._endpoints:
                    listener.close()
                if is_last or fixed or not port:
                    why = getattr(error, "strerror", None) or error
                    raise ListenError(
                        f"cannot listen on {with_port(host, port)} for gRPC clients: {why};"
                        f" choose {port_or_host(error, '--grpc-port')}, or disable the port with --no-grpc"
                    ) from error
            else:
                return

    def _brokers_changed(self) -> None:
        """Tell clients of brokers that are being shut down to reconnect, and pause or resume reading."""
        for connection in list(self.memory.connections):
            connection.regulate()
        leaving = frozenset(each.share.position for each in self._brokers if each.state == "shut-down")
        before, self._leaving = self._leaving, leaving
        for member in list(self._broker.registry.clients):
            if member.channel.door == DOOR and member.channel.broker_index in leaving - before:
                member.channel.reconnect()

    def _tick_later(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._tick_later()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_after())

    async def _look_after(self) -> None:
        """Check all connections, a few per iteration of the event loop. Return freed memory after a flood."""
        for number, _ in enumerate(self._check(), 1):
            if not number % CHECKED_PER_TURN:
                await asyncio.sleep(0)
        if self.memory.ends_flood():
            give_back()

    def _check(self) -> Iterator[None]:
        """Refuse stalled requests and close idle connections; yields after each request and connection."""
        for connection in list(self.memory.connections):
            yield from connection.look_after()
            connection.quiet = connection.quiet + 1 if connection.is_idle else 0
            if connection.quiet >= IDLE_TICKS:
                connection.abort(f"no request within {IDLE_S:g} s", logging.INFO)
            yield

    def _cut(self, local: RegisteredBroker | None) -> None:
        for connection in list(self.memory.connections):
            if connection.local is not local:
                continue
            if local is not None and local.state == "shut-down":
                connection.leave()
            else:
                is_fault = local is None or local.state == "running"
                why = "injected fault: broker away" if is_fault else f"{local.name} crashed"
                connection.abort(why, logging.INFO)

    async def _protocol(self, connection: GrpcConnection) -> Any:
        if self._engine is None:
            self._engine = asyncio.create_task(self._start_engine())
        return (await asyncio.shield(self._engine)).protocol(connection)

    async def _start_engine(self) -> Any:
        engine = await asyncio.to_thread(import_module, "mocketmq.grpc_proxy.engine")
        return engine.GrpcEngine(self._broker, self._settings, self._access, self.memory, self._tap)

    def metrics(self) -> Iterator[Any]:
        """Return the Prometheus metrics of the gRPC server."""
        if self._engine is None or not self._engine.done():
            return
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

        requests = CounterMetricFamily(
            "mocketmq_grpc_requests", "Requests of gRPC clients, by RPC and code.", labels=["rpc", "code"]
        )
        for (rpc, code), count in sorted(self._engine.result().answered.items()):
            requests.add_metric([rpc, str(code)], count)
        yield requests
        memory = self.memory
        for name, text, count in (
            ("connections", "Open connections of gRPC clients", len(memory.connections)),
            ("held_bytes", "Bytes of gRPC requests that are running or incomplete", memory.held),
            ("unread_bytes", "Bytes of messages being sent to gRPC clients", memory.unread),
        ):
            yield GaugeMetricFamily(f"mocketmq_grpc_{name}", text, count)

    async def close(self) -> None:
        """Stop accepting, finish running requests, and close. May be called twice."""
        for _, listener in self._endpoints:
            listener.close()
        if self._ticking is not None:
            self._ticking.cancel()
        if self._looking is not None:
            self._looking.cancel()
        connections = list(self.memory.connections)
        for connection in connections:
            connection.leave()
        ending = [asyncio.create_task(connection.lost()) for connection in connections]
        if ending:
            await asyncio.wait(ending, timeout=GRACE_S)
        for connection in list(self.memory.connections):
            connection.end()
        for task in ending:
            task.cancel()


def _is_down(local: RegisteredBroker) -> bool:
    return local.state != "running"
