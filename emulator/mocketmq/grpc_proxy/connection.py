"""One connection: TLS if its first byte asks for it, then HTTP/2 by grpclib."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from mocketmq.connections.tls import HANDSHAKE, Tls, TlsLayer
from mocketmq.doors import with_port

log = logging.getLogger(__name__)

READ_BYTES: Final = 64 << 10
UNREAD_BYTES: Final = 64 << 10

MakeProtocol = Callable[[], Awaitable[Any]]


class GrpcConnection(asyncio.BufferedProtocol):
    """``make`` gives grpclib's protocol for it, which takes a moment for the first client."""

    def __init__(self, tls: Tls, open_ones: set["GrpcConnection"], make: MakeProtocol) -> None:
        self._tls = tls
        self._open = open_ones
        self._make = make
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._is_new = True
        self._http2: Any = None
        self._early: list[bytes] = []
        self._making: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note who it is."""
        self.transport: asyncio.Transport | TlsLayer = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername") or ("127.0.0.1", 0)
        self.peer = with_port(*peer[:2])
        self.transport.set_write_buffer_limits(high=UNREAD_BYTES)
        self._open.add(self)

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
                layer = TlsLayer(cast(asyncio.Transport, self.transport), self, self._tls.certificate)
                self.transport = layer
                layer.start(data)
                return
            if wants_tls or self._tls.mode == "enforcing":
                why = "it wants TLS, which is disabled" if wants_tls else "it does not begin with TLS"
                log.warning("closing the connection of %s: %s", self.peer, why)
                self.transport.abort()
                return
        self.received(data)

    def received(self, data: bytes) -> None:
        """Take bytes of HTTP/2."""
        if self._http2 is not None:
            self._http2.data_received(data)
            return
        self._early.append(data)
        if self._making is None:
            self.transport.pause_reading()
            self._making = asyncio.create_task(self._begin())

    async def _begin(self) -> None:
        http2 = await self._make()
        if self.transport.is_closing():
            return
        http2.connection_made(self.transport)
        self._http2 = http2
        early, self._early = self._early, []
        for data in early:
            http2.data_received(data)
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        """The client does not read its answers."""
        if self._http2 is not None:
            self._http2.pause_writing()

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._http2 is not None:
            self._http2.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Cancel what is in work for it."""
        self._open.discard(self)
        if self._making is not None:
            self._making.cancel()
        if self._http2 is not None:
            self._http2.connection_lost(error)

    def close(self) -> None:
        """Cancel what is in work, and close."""
        if self._http2 is not None:
            self._http2.handler.close()
        self.transport.close()

    async def ended(self) -> None:
        """Wait until nothing is in work for it."""
        if self._http2 is not None:
            await self._http2.handler.wait_closed()
