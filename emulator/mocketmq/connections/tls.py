"""TLS on the same ports: a layer between a connection and its transport.

A client that wants TLS begins with a byte that begins no frame. From then on the connection has this layer
for its transport, and the transport has it for its protocol.
"""

import asyncio
import logging
import ssl
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from mocketmq.connections.certificate import Certificate
from mocketmq.settings import TlsMode

log = logging.getLogger(__name__)

HANDSHAKE: Final = 0x16
"""The first byte of a TLS connection. A frame that began with it would be too long."""
HANDSHAKE_S: Final = 10.0
"""Real seconds that a handshake may take."""
_RECORD_BYTES: Final = 16 << 10
"""Passed through OpenSSL at once: its buffers grow with it, and do not shrink while the connection lasts."""


class Tls(NamedTuple):
    """Whether clients may or must use TLS, and the certificate for it."""

    mode: TlsMode
    certificate: Certificate


class SecuredConnection(Protocol):
    """A connection above the layer."""

    peer: str

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for what is read next."""

    def received(self, data: bytes) -> None:
        """Take decrypted bytes."""

    def pause_writing(self) -> None:
        """The client does not read its answers."""

    def resume_writing(self) -> None:
        """The client has read most of its answers."""

    def connection_lost(self, error: Exception | None) -> None:
        """The connection was closed."""


class TlsLayer(asyncio.BufferedProtocol):
    """Decrypts for the connection above, to which it looks like a transport. Created after the first byte."""

    def __init__(
        self, transport: asyncio.Transport, connection: SecuredConnection, certificate: Certificate
    ) -> None:
        self._transport = transport
        self._connection = connection
        self._certificate = certificate
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None  # until there is a certificate, and after the end
        self._is_open = False
        self._loop = asyncio.get_running_loop()
        self._timeout = self._loop.call_later(HANDSHAKE_S, self._out_of_time)
        transport.set_protocol(self)

    def start(self, first: bytes) -> None:
        """Begin with the bytes read so far; nothing more is read until there is a certificate."""
        self._transport.pause_reading()
        self._starting = self._loop.create_task(self._start(first))

    async def _start(self, first: bytes) -> None:
        try:
            context = await self._certificate.context()
        except Exception as error:  # noqa: BLE001 - a full disk, for one; other clients go on
            log.error("there is no certificate for TLS with %s: %s", self._connection.peer, error)
            self._transport.abort()
            return
        if self._transport.is_closing():
            return
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._transport.resume_reading()
        self._go_on(memoryview(first))

    # The protocol, for the transport below.

    def get_buffer(self, sizehint: int) -> memoryview:
        """The connection's buffer, into which encrypted bytes are read first."""
        self._buffer = self._connection.get_buffer(sizehint)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypt what was read."""
        self._go_on(self._buffer[:nbytes])

    def pause_writing(self) -> None:
        """Tell the connection that the client does not read."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Tell the connection that the client reads again."""
        self._connection.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell the connection that it was closed."""
        self._timeout.cancel()
        self._tls = None  # frees its memory now instead of at the next garbage collection
        self._connection.connection_lost(error)

    def _go_on(self, came: memoryview) -> None:
        data: list[bytes] = []
        has_ended = False
        try:
            while came and not has_ended and self._tls is not None:
                self._incoming.write(came[:_RECORD_BYTES])
                came = came[_RECORD_BYTES:]
                has_ended = self._read(self._tls, data)
        except ssl.SSLError as error:
            self._fail(error)
            return
        self._flush()
        if data:
            self._connection.received(b"".join(data))
        if has_ended:
            self.close()

    def _read(self, tls: ssl.SSLObject, data: list[bytes]) -> bool:
        """Add decrypted bytes to ``data``. True if the client has closed TLS after them."""
        try:
            if not self._is_open:
                tls.do_handshake()
                self._is_open = True
                self._timeout.cancel()
            while chunk := tls.read(_RECORD_BYTES):
                data.append(chunk)
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLZeroReturnError:
            pass
        return True

    def _fail(self, error: ssl.SSLError) -> None:
        """Close, after the TLS alert that tells the client why."""
        log.warning("closing connection from %s: TLS failed: %s", self._connection.peer, error.reason)
        self._flush()
        self._transport.close()

    def _out_of_time(self) -> None:
        log.warning(
            "closing connection from %s: no TLS handshake in %g s", self._connection.peer, HANDSHAKE_S
        )
        self._transport.abort()

    def _flush(self) -> None:
        if self._outgoing.pending and not self._transport.is_closing():
            self._transport.write(self._outgoing.read())

    # The transport, for the connection above.

    def write(self, data: bytes) -> None:
        """Encrypt and send. The handshake is over by then, as only requests are answered."""
        rest = memoryview(data)
        records = []
        while rest and self._tls is not None:
            rest = rest[self._tls.write(rest[:_RECORD_BYTES]) :]
            records.append(self._outgoing.read())
        if records and not self._transport.is_closing():
            self._transport.write(b"".join(records))

    def get_write_buffer_size(self) -> int:
        """Bytes that are not sent yet."""
        return self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Stop reading."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading."""
        self._transport.resume_reading()

    def get_extra_info(self, name: str) -> object:
        """Ask the transport below."""
        return self._transport.get_extra_info(name)

    def is_closing(self) -> bool:
        """Whether it is closed or being closed."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Close TLS, then the connection when all is sent."""
        if self._transport.is_closing():
            return
        if self._is_open and self._tls is not None:
            with suppress(ssl.SSLError):  # unwrap wants the client's close_notify; nothing waits for it
                self._tls.unwrap()
            self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()
