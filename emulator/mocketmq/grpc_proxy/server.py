"""The gRPC listener. It imports protobuf, hpack and the handlers when the first client connects."""

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any, Final

from mocketmq.access.access import Access
from mocketmq.broker.broker import Broker
from mocketmq.connections.freed_memory import give_back
from mocketmq.connections.tls import Tls
from mocketmq.door_tap import DoorTap
from mocketmq.errors import ListenError
from mocketmq.grpc_proxy.client_limits import CHECKED_PER_TURN, GRACE_S, IDLE_S
from mocketmq.grpc_proxy.connection import GrpcConnection
from mocketmq.grpc_proxy.fault_injection import DOOR, operations
from mocketmq.grpc_proxy.memory import Memory
from mocketmq.host_port import with_port
from mocketmq.open_ports import OpenPort
from mocketmq.port_listener import PortListener
from mocketmq.settings import Settings

log = logging.getLogger(__name__)

TICK_S: Final = 5.0
IDLE_TICKS: Final = int(IDLE_S / TICK_S)


class GrpcServer:
    """The gRPC server, which the app starts and closes. Without ``access``, clients need no permissions."""

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
        make = partial(GrpcConnection, tls, self.memory, self._protocol, tap)
        self._port_listener = PortListener(make, self._cut)
        self._engine: asyncio.Task[Any] | None = None

    @property
    def door(self) -> OpenPort:
        """The open port."""
        return OpenPort(self.port, with_port(self._settings.host, self.port))

    async def start(self) -> None:
        """Accept clients. Raises ListenError."""
        host = self._settings.host
        try:
            self.port = await self._port_listener.listen_at(host, self.port)
        except OSError as error:
            raise ListenError(
                f"cannot listen on {with_port(host, self.port)} for gRPC clients: {error.strerror or error};"
                " choose another port by --grpc-port, or none by --no-grpc"
            ) from error
        self._broker.faults.declare(DOOR, operations())
        brokers = self._broker.registry.brokers
        await self._broker.outage.add_listener("broker-away", DOOR, self._port_listener, brokers.only_name)
        self._tick_later()

    def _tick_later(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._tick_later()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_after())

    async def _look_after(self) -> None:
        """Check all connections, a few per turn of the event loop, and return freed memory after a flood."""
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
                connection.abort(f"no request in {IDLE_S:g} s", logging.INFO)
            yield

    def _cut(self) -> None:
        for connection in list(self.memory.connections):
            connection.abort("injected fault: broker away", logging.INFO)

    async def _protocol(self, connection: GrpcConnection) -> Any:
        if self._engine is None:
            self._engine = asyncio.create_task(self._start_engine())
        return (await asyncio.shield(self._engine)).protocol(connection)

    async def _start_engine(self) -> Any:
        engine = await asyncio.to_thread(import_module, "mocketmq.grpc_proxy.engine")
        return engine.GrpcEngine(self._broker, self._settings, self._access, self.memory, self._tap)

    def metrics(self) -> Iterator[Any]:
        """Prometheus metrics of the gRPC server."""
        if self._engine is None or not self._engine.done():
            return iter(())
        return self._families(self._engine.result().answered)

    def _families(self, answered: dict[tuple[str, int], int]) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

        requests = CounterMetricFamily(
            "mocketmq_grpc_requests", "Requests of gRPC clients, by RPC and code.", labels=["rpc", "code"]
        )
        for (rpc, code), count in sorted(answered.items()):
            requests.add_metric([rpc, str(code)], count)
        yield requests
        memory = self.memory
        for name, text, count in (
            ("connections", "Open connections of gRPC clients", len(memory.connections)),
            ("held_bytes", "Bytes of gRPC requests that are running or incomplete", memory.held),
            ("unread_bytes", "Bytes of messages being sent to gRPC clients", memory.unread),
        ):
            gauge = GaugeMetricFamily(f"mocketmq_grpc_{name}", text)
            gauge.add_metric([], count)
            yield gauge

    async def close(self) -> None:
        """Stop accepting, finish running requests, and close. May be called twice."""
        self._port_listener.close()
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
