"""One connection: reads commands, dispatches them and writes answers; pauses reading at its limits."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, cast

from mocketmq.clock import steady_us
from mocketmq.connections.budget import FREE_BYTES, Budget
from mocketmq.connections.tls import HANDSHAKE, Tls, TlsLayer
from mocketmq.doors import with_port
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.dispatcher import Dispatcher
from mocketmq.remoting.listening.advertised_address import AdvertisedAddress
from mocketmq.remoting.listening.wrong_port import ANSWER, WRONG_PORT, is_http
from mocketmq.remoting.request import LongPoll, Response
from mocketmq.remoting.request_line import request_line
from mocketmq.remoting.wire.codes import ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.errors import FrameError
from mocketmq.remoting.wire.frame import FrameReader, encode

log = logging.getLogger(__name__)

READ_BYTES: Final = 256 << 10
SHORT_READ_BYTES: Final = 4 << 10
"""How much is read at once: as a rule, and when the memory budget is spent."""

MAX_RUNNING: Final = 1_024
MAX_RUNNING_BYTES: Final = 32 << 20
"""Limits of requests in progress on a connection. At either one, reading pauses until some are answered."""
MAX_WAITING_BYTES: Final = 4 << 20
MAX_WAITING_BYTES_TOGETHER: Final = 64 << 20
"""Limits of waiting long polls, per connection and in total, so that heartbeats are still read."""
UNREAD_BYTES: Final = 64 << 10
"""Bytes of unread answers at which reading the client's requests pauses."""
MAX_UNREAD_BYTES: Final = 64 << 20
"""Bytes of unread answers in total. Above it, clients with more than an equal share are disconnected."""
_REQUEST_BYTES: Final = 1 << 10
"""Memory of a request beside its text and body, roughly."""
_FIELD_BYTES, _USUAL_FIELDS = 160, 32
"""Memory of an ext field beside its text. The usual number of them is counted with the request."""

_BUSY: Final = Response(
    code=ResponseCode.SYSTEM_BUSY, remark="[REJECTREQUEST]system busy, start flow control for a while"
)


class ConnectionHub:
    """What all connections share.

    ``connections`` are open; those in ``leaving`` are closed, with requests still in work. ``gone`` is called
    with each closed channel after its last request. ``has_paused`` is set when a connection reaches a limit.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        advertised: Callable[[str, str], AdvertisedAddress],
        gone: Callable[[RemotingChannel], None],
        tls: Tls,
    ) -> None:
        self.tls = tls
        self.dispatcher = dispatcher
        self.advertised = advertised
        self.gone = gone
        self.budget = Budget()
        self.connections: set[Connection] = set()
        self.leaving: set[Connection] = set()
        self.waiting_bytes = 0
        self.has_paused = False
        self.unread: dict[Connection, int] = {}
        memory = memoryview(bytearray(READ_BYTES))
        self.full, self.short = memory, memory[:SHORT_READ_BYTES]


class Connection(asyncio.BufferedProtocol):
    """``held`` is its share of the memory budget; ``quiet`` counts ticks without a byte; ``port`` is ours."""

    def __init__(self, hub: ConnectionHub) -> None:
        self.held = 0
        self.quiet = 0
        self.frames = 0
        self._hub = hub
        self._reader = FrameReader()
        self._running: dict[asyncio.Task[None], int] = {}
        self._reading: set[asyncio.Task[None]] = set()  # of those that run: of no use without the client
        self._waiting: dict[asyncio.Task[None], int] = {}
        self._waiting_bytes = 0
        self._running_bytes = 0  # also of those begun on the fast path
        self._unbegun = 0  # tasks; nothing may overtake them
        self._on_fast_path: deque[int] = deque()  # sizes of requests in work without a task
        self._fast_path_idle = asyncio.Event()
        self._accounts_soon = False
        self._out: list[bytes] = []
        self._is_new = True  # nothing has come in
        self._is_paused = False
        self._is_stopping = False
        self._is_broken = False
        self._ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the client's address, and the one by which it reached the broker."""
        self._transport: asyncio.Transport | TlsLayer = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        local, peer = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        if not local or not peer:  # closed before it was accepted
            self._transport.abort()
            local = peer = ("127.0.0.1", 0)
        advertised = self._hub.advertised(local[0], peer[0])
        self.peer, self.port = with_port(*peer[:2]), local[1]
        self._channel = RemotingChannel(
            self.write, self.peer, advertised.address, advertised.store_host, self.hang_up
        )
        self._transport.set_write_buffer_limits(high=UNREAD_BYTES)
        self._hub.connections.add(self)
        log.debug("%s has connected to port %d", self.peer, local[1])

    @property
    def incomplete(self) -> int:
        """Bytes read of the incomplete frame."""
        return self._reader.buffered

    @property
    def lacking(self) -> int:
        """Bytes that are missing from it."""
        return self._reader.lacking

    @property
    def is_stalled(self) -> bool:
        """Whether the rest of a large frame has been missing for some time, though it would be read."""
        return not self._is_paused and self.quiet > 1 and self.incomplete > FREE_BYTES

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the transport's wish
        """The buffer that all connections share: each read is copied out before the next begins."""
        return self._hub.short if self._hub.budget.is_spent else self._hub.full

    def buffer_updated(self, nbytes: int) -> None:
        """Copy what was read out of the shared buffer."""
        data = bytes(self._hub.full[:nbytes])
        if self._is_new:
            self._is_new = False
            if self._begin_tls(data):
                return
        self.received(data)

    def _begin_tls(self, data: bytes) -> bool:
        """Start TLS if the client's first byte asks for it, or abort. False: go on without TLS."""
        tls = self._hub.tls
        wants_tls = data[0] == HANDSHAKE
        if wants_tls and tls.mode != "disabled":
            layer = TlsLayer(cast(asyncio.Transport, self._transport), self, tls.certificate)
            self._transport = layer
            layer.start(data)
        elif wants_tls or tls.mode == "enforcing":
            self.abort(
                "the client speaks TLS, which is disabled" if wants_tls else "the client does not speak TLS"
            )
        else:
            return False
        return True

    def received(self, data: bytes) -> None:
        """Start the requests that are complete."""
        self.quiet = 0
        commands: Sequence[Command]
        try:
            commands = self._reader.feed(data)
        except FrameError as error:
            commands, self._is_broken = error.before, True
            why: object = error
            if not self.frames and is_http(data):
                self._transport.write(ANSWER)
                why = WRONG_PORT
            log.warning("closing connection from %s: %s", self.peer, why)
        self.frames += len(commands)
        for command in commands:
            if command.is_response:
                self._channel.answered(command)
            else:
                self._start(command)
        self._account()

    def _start(self, command: Command) -> None:
        size = _size_of(command)
        if self._begin(command):
            self._on_fast_path.append(size)
            self._running_bytes += size
            return
        long_poll = self._hub.dispatcher.long_poll(command.code)
        if long_poll and self._may_wait(size):
            task = self._task(command, may_wait=True)
            self._waiting[task] = size
            self._waiting_bytes += size
            self._hub.waiting_bytes += size
            task.add_done_callback(self._has_waited)
        elif long_poll is LongPoll.REFUSED:
            self._answer(command, self._hub.dispatcher.counted(command, _BUSY), _now_us())
        else:
            task = self._task(command, may_wait=False)
            self._running[task] = size
            if self._hub.dispatcher.is_reading(command.code):
                self._reading.add(task)
            self._running_bytes += size
            task.add_done_callback(self._has_run)

    def _begin(self, command: Command) -> bool:
        """Begin a plain request; not before those that came first, nor if the log gets a line for each."""
        if self._unbegun or _now_us() is not None:
            return False
        return self._hub.dispatcher.begin(self._channel, command, self._reply)

    def _reply(self, command: Command, response: Response) -> None:
        """Answer a request that was begun on the fast path."""
        self._answer(command, self._hub.dispatcher.counted(command, response), None)
        self._running_bytes -= self._on_fast_path.popleft()
        if not self._on_fast_path:
            self._fast_path_idle.set()
        if not self._accounts_soon:
            self._accounts_soon = True
            self._loop.call_soon(self._account)

    def _task(self, command: Command, *, may_wait: bool) -> asyncio.Task[None]:
        self._unbegun += 1
        return self._loop.create_task(self._serve(command, may_wait=may_wait))

    async def _serve(self, command: Command, *, may_wait: bool) -> None:
        self._unbegun -= 1
        began_us = _now_us()
        answer = await self._hub.dispatcher.answer(self._channel, command, may_wait=may_wait)
        if answer is not None:
            self._answer(command, answer, began_us)

    def _answer(self, command: Command, answer: Command, began_us: int | None) -> None:
        if began_us is not None:
            log.debug(request_line(self.peer, command, answer, steady_us() - began_us))
        if command.is_oneway:
            return
        try:
            self.write(answer)
        except FrameError as error:
            self.write(command.answer(ResponseCode.SYSTEM_ERROR, {}, b"", f"the answer would be {error}"))

    def _has_run(self, task: asyncio.Task[None]) -> None:
        self._running_bytes -= self._running.pop(task)
        self._reading.discard(task)
        self._account()

    def _may_wait(self, size: int) -> bool:
        own, together = self._waiting_bytes + size, self._hub.waiting_bytes + size
        return own <= MAX_WAITING_BYTES and together <= MAX_WAITING_BYTES_TOGETHER

    def _has_waited(self, task: asyncio.Task[None]) -> None:
        size = self._waiting.pop(task)
        self._waiting_bytes -= size
        self._hub.waiting_bytes -= size

    def write(self, command: Command) -> None:
        """Send a command, with the others of this turn of the loop. Does nothing if the client is gone."""
        if self._transport.is_closing():
            return
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(encode(command))

    def _flush(self) -> None:
        data = b"".join(self._out)
        self._out.clear()
        if self._transport.is_closing():
            return
        self._transport.write(data)
        unread = self._hub.unread
        if self in unread:
            own = unread[self] = self._transport.get_write_buffer_size()
            if sum(unread.values()) > MAX_UNREAD_BYTES < own * len(unread):
                self.abort(f"the client does not read its answers: {own} bytes unread")

    def pause_writing(self) -> None:
        """The client does not read its answers: read no more of its requests."""
        self._hub.unread[self] = self._transport.get_write_buffer_size()
        self.regulate()

    def resume_writing(self) -> None:
        """The client has read most of its answers."""
        self._hub.unread.pop(self, None)
        self.regulate()

    def _account(self) -> None:
        """Update what is held. After a broken frame, close when all before it is answered."""
        self._accounts_soon = False
        self._hub.budget.change(self, self._reader.buffered + self._running_bytes)
        if self._is_broken and not self._running and not self._on_fast_path:
            self._flush()
            self._transport.close()
        self.regulate()

    def regulate(self) -> None:
        """Pause or resume reading, by the limits."""
        if self._transport.is_closing():
            return
        is_paused = (
            not self._hub.budget.may_read(self)
            or self in self._hub.unread
            or self._is_stopping
            or self._is_broken
            or len(self._running) + len(self._on_fast_path) >= MAX_RUNNING
            or self._running_bytes >= MAX_RUNNING_BYTES
        )
        if is_paused is not self._is_paused:
            self._is_paused = is_paused
            if is_paused:
                self._hub.has_paused = True
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def hang_up(self, fault: str) -> None:
        """Close the connection for an injected fault, after sending the answers that are ready."""
        self._flush()
        self.abort(f"injected fault {fault}", logging.INFO)

    def abort(self, why: str, level: int = logging.WARNING) -> None:
        """Close the connection at once, and log why."""
        log.log(level, "closing connection from %s: %s", self.peer, why)
        self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        """Cancel requests that only read. Other requests finish, because they change state."""
        log.debug("%s has disconnected (requests: %d)", self.peer, self.frames)
        hub = self._hub
        hub.connections.discard(self)
        self._channel.end()
        hub.unread.pop(self, None)
        self._reader = FrameReader()
        self._account()
        hub.budget.leave(self)
        hub.leaving.add(self)
        self._ending = self._loop.create_task(self._end())

    async def _end(self) -> None:
        for task in (*self._waiting, *self._reading):
            task.cancel()
        await self._finished()
        try:
            self._hub.gone(self._channel)
        finally:
            self._hub.leaving.discard(self)
            self._ended.set()

    async def _finished(self) -> None:
        await asyncio.gather(*self._running, *self._waiting, return_exceptions=True)
        while self._on_fast_path:
            self._fast_path_idle.clear()
            await self._fast_path_idle.wait()

    async def close(self) -> None:
        """Stop reading, answer the requests in progress, and flush."""
        self._is_stopping = True
        self._channel.end()
        self.regulate()
        await self._finished()
        if self._out:
            self._flush()
        self._transport.close()
        await self._ended.wait()

    def let_go(self) -> None:
        """Cancel the requests in progress, and close at once."""
        for task in (*self._running, *self._waiting):
            task.cancel()
        self._transport.abort()


def _now_us() -> int | None:
    """When a request begins, if the log has a line for it."""
    return steady_us() if log.isEnabledFor(logging.DEBUG) else None


def _size_of(command: Command) -> int:
    """Memory that a request takes while it is in work or waits, in bytes."""
    ext = command.ext
    text = len("".join(ext)) + len("".join(ext.values()))
    more = _FIELD_BYTES * max(len(ext) - _USUAL_FIELDS, 0)
    return _REQUEST_BYTES + more + len(command.body) + text
