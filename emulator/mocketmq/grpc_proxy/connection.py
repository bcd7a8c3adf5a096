"""One connection, which detects TLS by its first byte and is the transport for the HTTP/2 protocol."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from mmap import ACCESS_COPY, mmap
from typing import Any, Final, cast

from mocketmq.broker.registry.brokers import RegisteredBroker
from mocketmq.connections.tls import Tls, TlsLayer, TlsModeError
from mocketmq.door_tap import DoorTap
from mocketmq.grpc_proxy.client_limits import BYTES_PER_TURN, LINGER_S
from mocketmq.grpc_proxy.memory import Memory
from mocketmq.hosts import with_port

log = logging.getLogger(__name__)

READ_BYTES: Final = 64 << 10
UNREAD_BYTES: Final = 64 << 10
"""Number of bytes unread by the client at which reading from it and writing to it pause."""

MakeProtocol = Callable[["GrpcConnection"], Awaitable[Any]]


class GrpcConnection(asyncio.BufferedProtocol):
    """A client's connection. ``make`` creates its HTTP/2 protocol, for the first client after slow imports.

    ``running``, ``incoming`` and ``unread`` count the bytes that the connection occupies, for ``memory``.
    ``quiet`` counts checks without an RPC. ``tap_number`` is its number in a recording of requests. ``local``
    is the broker to whose endpoint the client is connected; None for the cluster's endpoint.
    """

    # Shared by all connections, because each read is copied at once. It occupies only as much memory as the
    # largest read.
    _buffer = memoryview(mmap(-1, READ_BYTES, access=ACCESS_COPY))

    def __init__(
        self,
        tls: Tls,
        memory: Memory,
        make: MakeProtocol,
        tap: DoorTap | None = None,
        local: RegisteredBroker | None = None,
    ) -> None:
        self.local = local
        self.tap_number = 0 if tap is None else tap.connected()
        self._tap = tap
        self.running = self.incoming = self.unread = self.quiet = 0
        self._tls = tls
        self._memory = memory
        self._make = make
        self._is_new = True
        self._is_stuck = False
        self._is_paused = False
        self._is_refused = False
        self._lost = asyncio.Event()
        self._http2: Any = None
        self._early: list[bytes] = []
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._making: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Record the client's address."""
        self._transport: asyncio.Transport | TlsLayer = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        peer = transport.get_extra_info("peername") or ("127.0.0.1", 0)
        self.peer = with_port(*peer[:2])
        self._transport.set_write_buffer_limits(high=UNREAD_BYTES)
        self._memory.connections.add(self)
        if self.local is not None:
            self.regulate()

    @property
    def is_idle(self) -> bool:
        """Whether no RPC is in progress."""
        return self._http2 is None or not self._http2.streams

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the size that the transport suggests
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Choose TLS or plain HTTP/2 by the first byte, and pass the bytes on."""
        data = bytes(self._buffer[:nbytes])
        if self._is_new:
            self._is_new = False
            try:
                layer = self._tls.begin_tls(data, cast(asyncio.Transport, self._transport), self)
            except TlsModeError as error:
                self.abort(str(error))
                return
            if layer is not None:
                self._transport = layer
                return
        self.received(data)

    def received(self, data: bytes) -> None:
        """Process bytes of HTTP/2, already decrypted."""
        if self._http2 is not None:
            self._http2.received(data)
            return
        self._early.append(data)
        if self._making is None:
            self._transport.pause_reading()
            self._making = self._loop.create_task(self._begin())

    async def _begin(self) -> None:
        http2 = await self._make(self)
        if self.is_closing():
            http2.lost()
            return
        self._http2 = http2
        self._making = None
        early, self._early = self._early, []
        for data in early:
            http2.received(data)
        if not self.is_closing() and not self._is_paused:
            self._transport.resume_reading()

    def regulate(self) -> None:
        """Pause or resume reading as the limits require."""
        is_behind = self._http2 is not None and self._http2.is_behind
        is_cut_off = self.local is not None and "clients" in self.local.condition.cut_off_from
        is_paused = (
            self._is_refused or self._is_stuck or is_behind or is_cut_off or self._memory.is_full(self)
        )
        if is_paused is not self._is_paused and not self.is_closing():
            self._is_paused = is_paused
            self._transport.pause_reading() if is_paused else self._transport.resume_reading()

    def pause_writing(self) -> None:
        """Pause writing and reading, because the client does not read its responses."""
        self._is_stuck = True
        self.regulate()

    def resume_writing(self) -> None:
        """Resume writing and reading, because the client reads its responses again."""
        self._is_stuck = False
        self.regulate()
        if self._http2 is not None:
            self._http2.pump_blocked()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        """Cancel the client's RPCs."""
        if self._tap is not None:
            self._tap.disconnected(self.tap_number)
        self._memory.connections.discard(self)
        self._lost.set()
        if self._making is not None:
            self._making.cancel()
        if self._http2 is not None:
            http2, self._http2 = self._http2, None
            http2.lost()

    def abort(self, why: str, level: int = logging.WARNING) -> None:
        """Close the connection at once, and log why."""
        log.log(level, "closing connection from %s: %s", self.peer, why)
        self._transport.abort()

    def refuse(self, why: str) -> None:
        """Close the connection because of the client's mistake, after leaving it time to read the reason.

        Reading stops at once, so that a flood has no further effect.
        """
        if self._is_refused or self.is_closing():
            return
        log.warning("closing connection from %s: %s", self.peer, why)
        self._is_refused = True
        self._flush()
        self.regulate()
        self._loop.call_later(LINGER_S, self._transport.abort)

    def leave(self) -> None:
        """Accept no further RPCs, and close when the running ones are finished."""
        if self._http2 is None:
            self.close()
        else:
            self._http2.leave()

    def end(self) -> None:
        """Cancel the RPCs in progress, and close."""
        if self._http2 is not None:
            self._http2.end()
        self.close()

    def is_slow_reader(self, limit_us: int) -> bool:
        """Whether the client has read less than ``LEAST_READ_BYTES`` since ``limit_us`` (steady clock)."""
        return self._http2 is not None and self._http2.is_slow_reader(limit_us)

    def look_after(self) -> Iterator[None]:
        """Refuse stalled requests; yields after each request."""
        if self._http2 is not None:
            yield from self._http2.refuse_stalled()

    async def lost(self) -> None:
        """Wait until the connection is closed."""
        await self._lost.wait()

    # The transport that the HTTP/2 protocol writes to.

    @property
    def room(self) -> int:
        """Bytes that may be written now."""
        return 0 if self._is_stuck else BYTES_PER_TURN - self._out_bytes

    def write(self, data: bytes) -> None:
        """Send the bytes, together with everything else written in this iteration of the event loop."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)
        self._out_bytes += len(data)

    def _flush(self) -> None:
        data = b"".join(self._out)
        self._out.clear()
        self._out_bytes = 0
        if data and not self._transport.is_closing():
            self._transport.write(data)
            if self._http2 is not None:
                self._http2.pump_blocked()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        """Close once everything is sent."""
        self._flush()
        self._transport.close()
