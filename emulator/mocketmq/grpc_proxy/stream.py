"""One HTTP/2 stream, which carries one RPC: assembles request messages and writes response frames."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mocketmq.clock import steady_us
from mocketmq.grpc_proxy.client_limits import MAX_COMMANDS, WINDOW_BYTES
from mocketmq.grpc_proxy.codes import Code, GrpcError, Status, StatusError
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

if TYPE_CHECKING:
    from mocketmq.grpc_proxy.http2 import Http2

_NOTHING: Final = memoryview(b"")
_PREFIX_BYTES: Final = 5
_REQUEST_BYTES: Final = 1 << 10
"""Approximate memory that a running request needs besides its bytes."""

StreamError = GrpcError | StatusError


class Rpc(NamedTuple):
    """How to serve an RPC. ``serve`` is called with the stream and the class of its requests.

    The call happens once the request is complete or, if ``is_streaming``, at once. When the connection is
    about to close, the handler of an ``is_poll`` RPC is cancelled while it waits, after ``Stream.is_hurried``
    is set.
    """

    serve: Callable[["Stream", Any], Awaitable[None]]
    request: Any
    max_bytes: int
    is_streaming: bool = False
    is_poll: bool = False


class Stream:
    """A stream, created when a request's headers have arrived; ``headers`` maps their names to values."""

    def __init__(self, http2: "Http2", stream_id: int, headers: dict[str, str]) -> None:
        self.http2 = http2
        self.connection = http2.connection
        self.stream_id = stream_id
        self.headers = headers
        self.send_window = DEFAULT_WINDOW
        self.receive_window = WINDOW_BYTES
        self.consumed = 0  # received bytes not yet returned to the client's window
        self.rpc: Rpc | None = None
        self.task: asyncio.Task[None] | None = None
        self.expiry: asyncio.TimerHandle | None = None
        self.expires_us: int | None = None  # by the steady clock
        self.is_queued = False  # its handler has been started, or is waiting to be started
        self.is_running = False  # its handler has taken its first step
        self.is_hurried = False  # its handler should respond at once
        self.has_ended = False  # the client has ended its side
        self.is_leaving = False  # its handler reads nothing more
        self.is_open = True  # true until the stream is finished or reset
        self.has_begun = False  # a response was sent
        self.size = 0  # bytes of the incomplete message
        self.moved_us = steady_us()
        self._incoming = bytearray()
        self._messages: deque[bytes] | None = None  # created late, because a flood opens many streams
        self._error: StreamError | None = None
        self._reading: asyncio.Future[None] | None = None
        self._rest = _NOTHING
        self._writing: asyncio.Future[None] | None = None
        self._held = 0

    # Receiving

    @property
    def is_ready(self) -> bool:
        """Whether the handler can read without waiting."""
        is_streaming = self.rpc is not None and self.rpc.is_streaming
        return is_streaming or self.has_ended or self._error is not None

    def receive(self, data: memoryview) -> None:
        """Process the content of a DATA frame."""
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
                if self._messages is None:
                    self._messages = deque()
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
                Code.MESSAGE_BODY_TOO_LARGE,
                f"the request is {size} bytes long; allowed: up to {rpc.max_bytes}",
            )
        if self._messages is not None and len(self._messages) >= MAX_COMMANDS:
            raise StatusError(
                Status.RESOURCE_EXHAUSTED, f"more than {MAX_COMMANDS} messages are waiting to be read"
            )

    def _grow(self, size: int) -> None:
        if size:
            self.http2.memory.grow(self, size)

    def _shrink(self, size: int) -> None:
        """Count a whole message as a running request, until :meth:`release`."""
        self.http2.memory.shrink(self, size)
        held = size + _REQUEST_BYTES
        self._held += held
        self.http2.memory.runs(self.connection, held)

    def end(self) -> None:
        """Record that the client will send nothing more."""
        self.has_ended = True
        if self._incoming and self._error is None:
            self.fail(StatusError(Status.INTERNAL, "Encountered end-of-stream mid-frame"))
        self._wake()

    def read_no_more(self) -> None:
        """Make the handler's next read the last one, because the connection is about to close."""
        self.is_leaving = True
        self._wake()

    def fail(self, error: StreamError) -> None:
        """Make the handler's next read raise this error, and drop the received bytes."""
        self._error = error
        self._incoming.clear()
        self._messages = None
        self.http2.memory.shrink(self, self.size)
        self._wake()

    def give_up(self, error: StreamError) -> None:
        """Refuse an incomplete request with this error."""
        self.fail(error)
        self.http2.serve(self)

    async def message(self) -> bytes | None:
        """Return the next message; None at the end. Raises GrpcError, StatusError."""
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
        """Stop counting the messages that were read. May be called twice."""
        if self._held:
            held, self._held = self._held, 0
            self.http2.memory.runs(self.connection, -held)

    # Sending

    async def send(self, message: bytes) -> None:
        """Send a message as fast as the client reads; return when all of it is sent.

        Raises StatusError if the client has disconnected.
        """
        if not self.is_connected:
            raise StatusError(Status.UNAVAILABLE, "the client disconnected")
        if not self.is_open:
            return
        self._begin()
        self._rest = memoryview(b"\0" + len(message).to_bytes(4, "big") + message)
        del message  # frees the message; its bytes were copied above
        self.http2.pump(self)
        if self._rest and self.is_open:
            self._writing = asyncio.get_running_loop().create_future()
            await self._writing

    @property
    def is_connected(self) -> bool:
        """Whether the client is still connected. The handler may run on for a while after a disconnect."""
        return not self.http2.is_dead

    def pump(self, room: int) -> int:
        """Write up to ``room`` pending bytes; return how many were written."""
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
        """Whether bytes still wait to be sent."""
        return bool(self._rest)

    def _begin(self) -> None:
        if not self.has_begun:
            self.has_begun = True
            self.http2.write_headers(self.stream_id, END_HEADERS, HEADERS_BLOCK)

    def finish(self, status: Status = Status.OK, message: str = "") -> None:
        """End the RPC with this status, and refuse all further data from the client."""
        if not self.is_open:
            return
        if self._rest:  # the sender was cancelled, so the last message is incomplete
            self.http2.write_reset(self.stream_id, Http2Code.CANCEL)
            self.close()
            return
        block = trailers_block(status, message)
        self.finish_with(block if self.has_begun else HEADERS_BLOCK + block)

    def finish_with(self, block: bytes) -> None:
        """End the RPC with this block of headers or trailers."""
        self.http2.write_headers(self.stream_id, END_HEADERS | END_STREAM, block)
        if not self.has_ended:
            self.http2.drain(self)
        self.close()

    def close(self) -> None:
        """Remove the stream, because it is finished or reset, or its connection is closed."""
        if not self.is_open:
            return
        self.is_open = False
        self._error = None  # its traceback refers to this stream
        self._rest = _NOTHING
        if self.expiry is not None:
            self.expiry.cancel()
        if self._writing is not None and not self._writing.done():
            self._writing.set_result(None)
        self.http2.memory.shrink(self, self.size)
        self.release()
        self.http2.forget(self)

    def hurry(self) -> None:
        """Make a handler that waits, or will wait, respond at once."""
        if self.rpc is not None and self.rpc.is_poll and not self.has_begun:
            self.is_hurried = True
            if self.is_running and self.task is not None:
                self.task.cancel()

    def cancel(self) -> None:
        """Remove the stream and cancel its handler, because the client has reset it or disconnected."""
        self.close()
        task, self.task = self.task, None  # a task cancelled before its first step keeps its arguments alive
        if task is not None:
            task.cancel()
