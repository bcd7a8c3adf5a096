"""Listen for gRPC clients. Protobuf, hpack and the handlers are imported when the first client comes."""

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
from mocketmq.doors import Door, with_port
from mocketmq.errors import ListenError
from mocketmq.gate import Gate
from mocketmq.grpc_proxy.connection import GrpcConnection
from mocketmq.grpc_proxy.faulty import DOOR, operations
from mocketmq.grpc_proxy.limits import GRACE_S, IDLE_S
from mocketmq.grpc_proxy.memory import Memory
from mocketmq.settings import Settings

log = logging.getLogger(__name__)

TICK_S: Final = 5.0
IDLE_TICKS: Final = int(IDLE_S / TICK_S)


class GrpcServer:
    """Started and closed by the app. Without ``access`` everybody may do everything."""

    def __init__(self, broker: Broker, settings: Settings, tls: Tls, access: Access | None = None) -> None:
        self.port = settings.grpc_port
        self._broker = broker
        self._settings = settings
        self._access = access
        self._memory = Memory()
        self._ticking: asyncio.TimerHandle | None = None
        make = partial(GrpcConnection, tls, self._memory, self._protocol)
        self._gate = Gate(make, self._cut)
        self._engine: asyncio.Task[Any] | None = None

    @property
    def door(self) -> Door:
        """The port that is listened on."""
        return Door(self.port, with_port(self._settings.host, self.port))

    async def start(self) -> None:
        """Accept clients. Raises ListenError."""
        host = self._settings.host
        try:
            self.port = await self._gate.listen_at(host, self.port)
        except OSError as error:
            raise ListenError(
                f"cannot listen on {with_port(host, self.port)} for gRPC clients: {error.strerror or error};"
                " choose another port by --grpc-port, or none by --no-grpc"
            ) from error
        self._broker.faults.declare(DOOR, operations())
        await self._broker.outage.add("broker-away", DOOR, self._gate)
        self._tick_later()

    def _tick_later(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self._tick_later()
        self._look_after()

    def _look_after(self) -> None:
        """Close connections that do nothing, and give freed memory back after a flood."""
        for connection in list(self._memory.connections):
            connection.look_after()
            connection.quiet = connection.quiet + 1 if connection.is_idle else 0
            if connection.quiet >= IDLE_TICKS:
                connection.abort(f"no request in {IDLE_S:g} s", logging.INFO)
        if self._memory.ends_flood():
            give_back()

    def _cut(self) -> None:
        for connection in list(self._memory.connections):
            connection.abort("injected fault: broker away", logging.INFO)

    async def _protocol(self, connection: GrpcConnection) -> Any:
        if self._engine is None:
            self._engine = asyncio.create_task(self._start_engine())
        return (await asyncio.shield(self._engine)).protocol(connection)

    async def _start_engine(self) -> Any:
        engine = await asyncio.to_thread(import_module, "mocketmq.grpc_proxy.engine")
        return engine.Engine(self._broker, self._settings, self._access, self._memory)

    def metrics(self) -> Iterator[Any]:
        """The door's metrics, for Prometheus."""
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
        memory = self._memory
        for name, text, count in (
            ("connections", "Open connections of gRPC clients", len(memory.connections)),
            ("held_bytes", "Memory of gRPC requests in work or coming in", memory.held),
            ("unread_bytes", "Messages on their way to gRPC clients", memory.unread),
        ):
            gauge = GaugeMetricFamily(f"mocketmq_grpc_{name}", text)
            gauge.add_metric([], count)
            yield gauge

    async def close(self) -> None:
        """Stop accepting, finish what is in work, and close. May be called twice."""
        self._gate.close()
        if self._ticking is not None:
            self._ticking.cancel()
        connections = list(self._memory.connections)
        for connection in connections:
            connection.leave()
        ending = [asyncio.create_task(connection.lost()) for connection in connections]
        if ending:
            await asyncio.wait(ending, timeout=GRACE_S)
        for connection in list(self._memory.connections):
            connection.end()
        for task in ending:
            task.cancel()
