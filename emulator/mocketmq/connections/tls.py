"""TLS on the same port as plain connections, with a layer between a connection and its transport.

A TLS client begins with a byte that cannot begin a frame. After that byte the connection uses this layer as
its transport, and the transport uses the layer as its protocol.
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
"""First byte of a TLS connection. No frame begins with it, because such a frame would be too long."""
HANDSHAKE_S: Final = 10.0
"""Maximum duration of a handshake, in real seconds."""
_RECORD_BYTES: Final = 16 << 10
"""Maximum number of bytes passed to OpenSSL at once; its buffers grow to that size and never shrink."""


class TlsModeError(Exception):
    """The setting ``tls`` forbids TLS and the client uses it, or requires TLS and the client does not."""


class Tls(NamedTuple):
    """Whether clients may or must use TLS, and the certificate."""

    mode: TlsMode
    certificate: Certificate
    handshake_s: float = HANDSHAKE_S

    def begin_tls(
        self, first: bytes, transport: asyncio.Transport, connection: "SecuredConnection"
    ) -> "TlsLayer | None":
        """Return a layer if the client's first byte begins TLS, else None. Raises TlsModeError."""
        if first[0] != HANDSHAKE:
            if self.mode == "enforcing":
                raise TlsModeError("the client does not speak TLS")
            return None
        if self.mode == "disabled":
            raise TlsModeError("the client speaks TLS, which is disabled")
        layer = TlsLayer(transport, connection, self.certificate, self.handshake_s)
        layer.start(first)
        return layer


class SecuredConnection(Protocol):
    """The interface of a connection above the layer."""

    peer: str

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next read."""

    def received(self, data: bytes) -> None:
        """Process decrypted bytes."""

    def pause_writing(self) -> None:
        """Stop writing, because the client does not read its responses."""

    def resume_writing(self) -> None:
        """Resume writing, because the client has read most of its responses."""

    def connection_lost(self, error: Exception | None) -> None:
        """Clean up after the connection has closed."""


class TlsLayer(asyncio.BufferedProtocol):
    """Encrypts and decrypts for the connection above, to which it looks like a transport.

    An instance is created after the client's first byte.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        connection: SecuredConnection,
        certificate: Certificate,
        handshake_s: float,
    ) -> None:
        self._transport = transport
        self._handshake_s = handshake_s
        self._connection = connection
        self._certificate = certificate
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None  # None before there is a certificate, and after the end
        self._is_open = False
        self._loop = asyncio.get_running_loop()
        self._timeout = self._loop.call_later(handshake_s, self._out_of_time)
        transport.set_protocol(self)

    def start(self, first: bytes) -> None:
        """Start with the bytes read so far. Reading pauses until the certificate is ready."""
        self._transport.pause_reading()
        self._starting = self._loop.create_task(self._start(first))

    async def _start(self, first: bytes) -> None:
        peer = self._connection.peer
        try:
            context = await self._certificate.context()
        except Exception as error:  # noqa: BLE001 - for example, a full disk; other clients continue
            log.error("closing connection from %s: cannot make a certificate: %s", peer, error)
            self._transport.abort()
            return
        if self._transport.is_closing():
            return
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._transport.resume_reading()
        self._go_on(memoryview(first))

    # The protocol, for the transport below.

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the connection's buffer, into which encrypted bytes are read first."""
        self._buffer = self._connection.get_buffer(sizehint)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypt the bytes read."""
        self._go_on(self._buffer[:nbytes])

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._timeout.cancel()
        # Frees memory now instead of at the next garbage collection: the connection refers to this object.
        self._tls = None
        self._connection.connection_lost(error)
        del self._connection

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
        """Append decrypted bytes to ``data``. Returns whether the client has closed TLS after these bytes."""
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
        """Close the connection after sending the TLS alert with the reason."""
        log.warning("closing connection from %s: TLS failed: %s", self._connection.peer, error.reason)
        self._flush()
        self._transport.close()

    def _out_of_time(self) -> None:
        log.warning(
            "closing connection from %s: no TLS handshake within %g s",
            self._connection.peer,
            self._handshake_s,
        )
        self._transport.abort()

    def _flush(self) -> None:
        if self._outgoing.pending and not self._transport.is_closing():
            self._transport.write(self._outgoing.read())

    # The transport, for the connection above.

    def write(self, data: bytes) -> None:
        """Encrypt and send. The handshake is complete, because data is only sent in response to requests."""
        rest = memoryview(data)
        records = []
        try:
            while rest and self._tls is not None:
                rest = rest[self._tls.write(rest[:_RECORD_BYTES]) :]
                records.append(self._outgoing.read())
        except ssl.SSLError as error:  # the caller may be the store's writer, which the error must not reach
            self._fail(error)
            return
        if records and not self._transport.is_closing():
            self._transport.write(b"".join(records))

    def get_write_buffer_size(self) -> int:
        """The number of unsent bytes."""
        return self._transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Stop reading."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading."""
        self._transport.resume_reading()

    def get_extra_info(self, name: str) -> object:
        """Return the transport's information of this name."""
        return self._transport.get_extra_info(name)

    def is_closing(self) -> bool:
        """Whether the connection is closed or closing."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Close TLS, then the connection once everything is sent."""
        if self._transport.is_closing():
            return
        if self._is_open and self._tls is not None:
            with suppress(ssl.SSLError):  # unwrap() raises without the client's close_notify
                self._tls.unwrap()
            self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()
