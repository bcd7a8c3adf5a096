"""One connection: TLS if its first byte asks for it, then HTTP/2 by grpclib, whose transport it is."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from mocketmq.clock import steady_us
from mocketmq.connections.tls import HANDSHAKE, Tls, TlsLayer
from mocketmq.doors import with_port
from mocketmq.grpc_proxy.memory import Memory

log = logging.getLogger(__name__)

READ_BYTES: Final = 64 << 10
UNREAD_BYTES: Final = 64 << 10
"""When a client leaves this much unread, no more is read of it or written to it."""

MakeProtocol = Callable[[], Awaitable[Any]]


class GrpcConnection(asyncio.BufferedProtocol):
    """``make`` gives grpclib's protocol for it, which takes a moment for the first client.

    ``running``, ``incoming`` and ``unread`` are its shares of the memory; ``quiet`` counts ticks without RPC.
    """

    _buffer = memoryview(bytearray(READ_BYTES))  # of all: each read is copied out before the next begins

    def __init__(self, tls: Tls, memory: Memory, make: MakeProtocol) -> None:
        self.running = self.incoming = self.unread = self.quiet = 0
        self.wrote_us = 0
        self._tls = tls
        self._memory = memory
        self._make = make
        self._is_new = True
        self._is_stuck = False
        self._is_paused = False
        self._http2: Any = None
        self._early: list[bytes] = []
        self._out: list[bytes] = []
        self._making: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note who it is."""
        self._transport: asyncio.Transport | TlsLayer = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        peer = transport.get_extra_info("peername") or ("127.0.0.1", 0)
        self.peer = with_port(*peer[:2])
        self._transport.set_write_buffer_limits(high=UNREAD_BYTES)
        self._memory.connections.add(self)

    @property
    def is_idle(self) -> bool:
        """Whether no RPC is in work."""
        return self._http2 is None or not self._http2.processor.streams

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the transport's wish
        """Where bytes are read to."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Look at the first byte, and hand all to who reads them."""
        data = bytes(self._buffer[:nbytes])
        if self._is_new:
            self._is_new = False
            wants_tls = data[0] == HANDSHAKE
            if wants_tls and self._tls.mode != "disabled":
                layer = TlsLayer(cast(asyncio.Transport, self._transport), self, self._tls.certificate)
                self._transport = layer
                layer.start(data)
                return
            if wants_tls or self._tls.mode == "enforcing":
                self.abort("it wants TLS, which is disabled" if wants_tls else "it does not begin with TLS")
                return
        self.received(data)

    def received(self, data: bytes) -> None:
        """Take bytes of HTTP/2."""
        if self._http2 is not None:
            self._http2.data_received(data)
            return
        self._early.append(data)
        if self._making is None:
            self._transport.pause_reading()
            self._making = self._loop.create_task(self._begin())

    async def _begin(self) -> None:
        http2 = await self._make()
        if self.is_closing():
            return
        http2.connection_made(self)
        self._http2 = http2
        early, self._early = self._early, []
        for data in early:
            http2.data_received(data)
        if not self.is_closing():
            self._transport.resume_reading()

    def regulate(self) -> None:
        """Pause or resume reading, by the limits."""
        is_paused = self._is_stuck or self._memory.is_full(self)
        if is_paused is not self._is_paused and not self.is_closing():
            self._is_paused = is_paused
            self._transport.pause_reading() if is_paused else self._transport.resume_reading()

    def pause_writing(self) -> None:
        """The client does not read its answers."""
        self._is_stuck = True
        if self._http2 is not None:
            self._http2.pause_writing()
            self.regulate()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._is_stuck = False
        if self._http2 is not None:
            self._http2.resume_writing()
            self.regulate()

    def connection_lost(self, error: Exception | None) -> None:
        """Cancel what is in work for it."""
        self._memory.connections.discard(self)
        if self._making is not None:
            self._making.cancel()
        if self._http2 is not None:
            self._http2.connection_lost(error)

    def abort(self, why: str, level: int = logging.WARNING) -> None:
        """Close the connection at once, and log why."""
        log.log(level, "closing the connection of %s: %s", self.peer, why)
        self._transport.abort()

    def end(self) -> None:
        """Cancel what is in work, and close."""
        if self._http2 is not None:
            self._http2.handler.close()
        self.close()

    async def ended(self) -> None:
        """Wait until nothing is in work for it."""
        if self._http2 is not None:
            await self._http2.handler.wait_closed()

    # The transport, for grpclib.

    def write(self, data: bytes) -> None:
        """Send, with what else is written in this turn of the loop."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def _flush(self) -> None:
        data = b"".join(self._out)
        self._out.clear()
        if data and not self._transport.is_closing():
            self.wrote_us = steady_us()
            self._transport.write(data)

    def is_closing(self) -> bool:
        """Whether it is closed or being closed."""
        return self._transport.is_closing()

    def get_extra_info(self, name: str) -> object:
        """What the transport below knows."""
        return self._transport.get_extra_info(name)

    def close(self) -> None:
        """Close when all is sent."""
        self._flush()
        self._transport.close()
