"""One RPC on a connection: its request as messages, its answer as frames."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mocketmq.clock import steady_us
from mocketmq.grpc_proxy.codes import Code, GrpcError
from mocketmq.grpc_proxy.frames import (
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    HEADERS_BLOCK,
    Frame,
    Http2Code,
    frame,
    trailers_block,
)
from mocketmq.grpc_proxy.limits import MAX_COMMANDS, WINDOW_BYTES
from mocketmq.grpc_proxy.status import Status, StatusError

if TYPE_CHECKING:
    from mocketmq.grpc_proxy.http2 import Http2

_PREFIX_BYTES: Final = 5
_REQUEST_BYTES: Final = 1 << 10
"""Memory of a request beside its bytes, roughly."""

StreamError = GrpcError | StatusError


class Rpc(NamedTuple):
    """How an RPC is served: ``serve`` is called with the stream and the class of its requests.

    That is done once the client has sent all or, if ``is_streaming``, at once. ``is_poll``: when the
    connection is to end, the handler is cancelled while it waits, with ``Stream.is_hurried`` set.
    """

    serve: Callable[["Stream", Any], Awaitable[None]]
    request: Any
    max_bytes: int
    is_streaming: bool = False
    is_poll: bool = False


class Stream:
    """Made when the headers of a request have come. ``headers`` are its headers by name."""

    def __init__(self, http2: "Http2", stream_id: int, headers: dict[str, str]) -> None:
        self.http2 = http2
        self.connection = http2.connection
        self.stream_id = stream_id
        self.headers = headers
        self.send_window = DEFAULT_WINDOW
        self.receive_window = WINDOW_BYTES
        self.consumed = 0  # bytes that the client has not been allowed to send again
        self.rpc: Rpc | None = None
        self.task: asyncio.Task[None] | None = None
        self.expiry: asyncio.TimerHandle | None = None
        self.expires_us: int | None = None  # by the steady clock
        self.is_hurried = False  # its handler is to answer with what it has
        self.has_ended = False  # the client sends nothing more
        self.is_leaving = False  # its handler reads nothing more, though the client may not have ended yet
        self.is_open = True  # until it is finished or reset
        self.has_begun = False  # something was sent
        self.size = 0  # of the message that is coming in, as far as it is here
        self.moved_us = steady_us()
        self._incoming = bytearray()
        self._messages: deque[bytes] = deque()
        self._error: StreamError | None = None
        self._reading: asyncio.Future[None] | None = None
        self._rest = memoryview(b"")
        self._writing: asyncio.Future[None] | None = None
        self._held = 0

    # What comes from the client.

    @property
    def is_ready(self) -> bool:
        """Whether the handler has something to read."""
        is_streaming = self.rpc is not None and self.rpc.is_streaming
        return is_streaming or self.has_ended or self._error is not None

    def receive(self, data: memoryview) -> None:
        """Take content of DATA frames."""
        if self._error is not None or self.rpc is None:
            return
        self.moved_us = steady_us()
        incoming = self._incoming
        try:
            self._grow(len(data))
            incoming += data
            while len(incoming) >= _PREFIX_BYTES:
                size = int.from_bytes(incoming[1:_PREFIX_BYTES], "big")
                self._check(self.rpc, incoming[0], size)
                if len(incoming) < _PREFIX_BYTES + size:
                    break
                self._messages.append(bytes(memoryview(incoming)[_PREFIX_BYTES : _PREFIX_BYTES + size]))
                del incoming[: _PREFIX_BYTES + size]
                self._shrink(_PREFIX_BYTES + size)
        except (GrpcError, StatusError) as error:
            self.fail(error)
            return
        if self._messages:
            self._wake()

    def _check(self, rpc: Rpc, flag: int, size: int) -> None:
        if flag:
            raise StatusError(Status.UNIMPLEMENTED, "compressed messages are not supported")
        if size > rpc.max_bytes:
            raise GrpcError(
                Code.MESSAGE_BODY_TOO_LARGE, f"the request has {size} bytes; allowed: up to {rpc.max_bytes}"
            )
        if len(self._messages) >= MAX_COMMANDS:
            raise StatusError(Status.RESOURCE_EXHAUSTED, f"more than {MAX_COMMANDS} messages wait to be read")

    def _grow(self, size: int) -> None:
        if size:
            self.http2.memory.grow(self, size)

    def _shrink(self, size: int) -> None:
        """Count a whole message as a request in work, until :meth:`release`."""
        self.http2.memory.shrink(self, size)
        held = size + _REQUEST_BYTES
        self._held += held
        self.http2.memory.runs(self.connection, held)

    def end(self) -> None:
        """Note that the client sends nothing more."""
        self.has_ended = True
        if self._incoming and self._error is None:
            self.fail(StatusError(Status.INTERNAL, "Encountered end-of-stream mid-frame"))
        self._wake()

    def read_no_more(self) -> None:
        """Let the handler's next read be the last: the connection is to end."""
        self.is_leaving = True
        self._wake()

    def fail(self, error: StreamError) -> None:
        """Let the handler's next read raise this, and drop what has come in."""
        self._error = error
        self._incoming.clear()
        self._messages.clear()
        self.http2.memory.shrink(self, self.size)
        self._wake()

    def give_up(self, error: StreamError) -> None:
        """Refuse a request that is not complete."""
        self.fail(error)
        self.http2.serve(self)

    async def message(self) -> bytes | None:
        """The next message; None at the end. Raises GrpcError, StatusError."""
        while not self._messages:
            if self._error is not None:
                raise self._error
            if self.has_ended or self.is_leaving:
                return None
            self._reading = asyncio.get_running_loop().create_future()
            await self._reading
        return self._messages.popleft()

    def _wake(self) -> None:
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)

    def release(self) -> None:
        """Stop counting what was read. May be called twice."""
        if self._held:
            held, self._held = self._held, 0
            self.http2.memory.runs(self.connection, -held)

    # What goes to the client.

    async def send(self, message: bytes) -> None:
        """Send a message, as far as the client reads; returns when all of it is on its way."""
        while self._writing is not None and not self._writing.done():
            await asyncio.shield(self._writing)
        if not self.is_open:
            return
        self._begin()
        self._rest = memoryview(b"\0" + len(message).to_bytes(4, "big") + message)
        del message  # its bytes are in the line above
        self.http2.pump(self)
        if self._rest and self.is_open:
            self._writing = asyncio.get_running_loop().create_future()
            await self._writing

    def pump(self, room: int) -> int:
        """Write up to ``room`` bytes of what is to be sent; how many were written."""
        rest, frame_bytes, written = self._rest, self.http2.max_frame_bytes, 0
        room = min(room, self.send_window)
        while rest and room > 0:
            piece = rest[: min(frame_bytes, room)]
            self.http2.write(frame(Frame.DATA, 0, self.stream_id, piece.tobytes()))
            size = len(piece)
            rest = rest[size:]
            room -= size
            written += size
        self._rest = rest
        self.send_window -= written
        if not rest and self._writing is not None and not self._writing.done():
            self._writing.set_result(None)
        return written

    @property
    def wants_window(self) -> bool:
        """Whether it has something to send."""
        return bool(self._rest)

    def _begin(self) -> None:
        if not self.has_begun:
            self.has_begun = True
            self.http2.write_headers(self.stream_id, END_HEADERS, HEADERS_BLOCK)

    def finish(self, status: Status = Status.OK, message: str = "") -> None:
        """End the RPC with this status. What the client still sends of it is refused."""
        if not self.is_open:
            return
        if self._rest:  # whoever sent it was cancelled, so the last message is not whole
            self.http2.write_reset(self.stream_id, Http2Code.CANCEL)
            self.close()
            return
        block = trailers_block(status, message)
        self.finish_with(block if self.has_begun else HEADERS_BLOCK + block)

    def finish_with(self, block: bytes) -> None:
        """End the RPC with a block of headers, which nothing goes before."""
        self.http2.write_headers(self.stream_id, END_HEADERS | END_STREAM, block)
        if not self.has_ended:
            self.http2.drain(self)
        self.close()

    def close(self) -> None:
        """Forget the stream: it is finished, reset, or its connection is gone."""
        if not self.is_open:
            return
        self.is_open = False
        self._rest = memoryview(b"")
        if self.expiry is not None:
            self.expiry.cancel()
        if self._writing is not None and not self._writing.done():
            self._writing.set_result(None)
        self.http2.memory.shrink(self, self.size)
        self.release()
        self.http2.forget(self)

    def hurry(self) -> None:
        """Let a handler that waits for something to send answer now."""
        if self.rpc is not None and self.rpc.is_poll and self.task is not None and not self.has_begun:
            self.is_hurried = True
            self.task.cancel()

    def cancel(self) -> None:
        """Forget the stream and stop its handler: the client has reset it or is gone."""
        self.close()
        task, self.task = self.task, None  # a task cancelled before its first step keeps what it was given
        if task is not None:
            task.cancel()
