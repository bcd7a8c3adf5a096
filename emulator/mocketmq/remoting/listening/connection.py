"""A connection, which reads commands, dispatches them, writes responses, and stops reading at its limits."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from mmap import ACCESS_COPY, mmap
from typing import Final, NamedTuple, cast

from mocketmq.broker.name_servers import NameServerView
from mocketmq.clock import steady_us
from mocketmq.connections.budget import FREE_BYTES, Budget
from mocketmq.connections.tls import Tls, TlsLayer, TlsModeError
from mocketmq.door_tap import DoorTap
from mocketmq.hosts import with_port
from mocketmq.message.broker_share import BrokerShare
from mocketmq.remoting.call import Response
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.dispatcher import Dispatcher
from mocketmq.remoting.listening.advertised_address import AdvertisedAddress
from mocketmq.remoting.listening.message_memory import MessageLoad, MessageMemory
from mocketmq.remoting.listening.requests_in_progress import ConnectionLimits, RequestsInProgress, memory_of
from mocketmq.remoting.listening.wrong_port import ANSWER, WRONG_PORT, is_http
from mocketmq.remoting.request import LongPoll
from mocketmq.remoting.request_attributes import request_line
from mocketmq.remoting.wire.codes import FrameError, ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.frame import FrameReader, encode
from mocketmq.store.writer import Writer

log = logging.getLogger(__name__)

READ_BYTES: Final = 256 << 10
SHORT_READ_BYTES: Final = 4 << 10
"""Maximum number of bytes per read, normally and while the memory budget is spent."""

UNREAD_BYTES: Final = 64 << 10
"""Number of bytes of unread responses above which the broker stops reading the client's requests."""
MAX_UNREAD_BYTES: Final = 64 << 20
"""Limit on all unread responses. Above it, clients with more than an equal share are disconnected."""
_BUSY: Final = Response(
    code=ResponseCode.SYSTEM_BUSY, remark="[REJECTREQUEST]system busy, start flow control for a while"
)


class Reached(NamedTuple):
    """What a client is connected to: a broker, its slave or a name server.

    ``dispatcher`` serves the requests there. ``share`` and ``advertised`` are those of the broker, or of the
    first broker if ``name_server`` is given.
    """

    dispatcher: Dispatcher
    share: BrokerShare
    advertised: AdvertisedAddress
    name_server: NameServerView | None
    is_slave: bool


class ConnectionHub:
    """The state that all connections share.

    ``connections`` are open. The connections in ``leaving`` are closed, but have requests in progress.
    ``gone`` is called with each closed channel after its last request. ``has_paused`` is set when a
    connection reaches a limit. ``version`` is the version of RocketMQ in all commands to clients.
    ``largest_answer`` is the limit on the size of the messages in one response, in bytes. ``cut_off`` has the
    ports of brokers that are cut off from clients: their connections stay open, but nothing gets through.
    ``tap`` records the requests. ``last_reader`` is the connection that received the last requests.
    """

    def __init__(
        self,
        writer: Writer,
        reached: Callable[[tuple[str, int], str], Reached],
        gone: Callable[[RemotingChannel], None],
        tls: Tls,
        version: int,
        largest_answer: int,
        tap: DoorTap | None = None,
    ) -> None:
        self.tap = tap
        self.limits = ConnectionLimits()
        self.messages = MessageMemory(largest_answer)
        self.version = version
        self.tls = tls
        self.reached = reached
        self.gone = gone
        self.budget = Budget()
        self.connections: set[RemotingConnection] = set()
        self.leaving: set[RemotingConnection] = set()
        self.writer = writer
        self.last_reader: RemotingConnection | None = None
        self.waiting_bytes = 0
        self.has_paused = False
        self.cut_off: frozenset[int] = frozenset()
        memory = memoryview(
            mmap(-1, READ_BYTES, access=ACCESS_COPY)
        )  # uses only as much memory as the largest read
        self.full, self.short = memory, memory[:SHORT_READ_BYTES]


class RemotingConnection(asyncio.BufferedProtocol):
    """A client's connection to the local ``port``.

    ``held`` is the part of the memory budget that the connection uses. ``quiet`` is the number of ticks since
    the last byte was received.
    """

    def __init__(self, hub: ConnectionHub) -> None:
        self.held = 0
        self.quiet = 0
        self.frames = 0
        self._hub = hub
        self._tap = hub.tap
        self._tapped = 0
        self._reader = FrameReader()
        self._requests = RequestsInProgress(hub)
        self._out: list[bytes] = []
        self._lost: list[Command] = []  # received while cut off; served later, like TCP retransmissions
        self._lost_bytes = 0
        self._ends_turn_soon = False
        self._is_new = True  # nothing has been received yet
        self._is_paused = False
        self._is_stopping = False
        self._is_broken = False
        self._ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Record the client's address, and the local address that it connected to."""
        self._transport: asyncio.Transport | TlsLayer = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        local, peer = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        if not local or not peer:  # the client closed the connection before the accept
            self._transport.abort()
            local = peer = ("127.0.0.1", 0)
        self._ends = local[:2], peer[0]
        reached = self._hub.reached(*self._ends)
        self._dispatcher, share, advertised, name_server, is_slave = reached
        self.peer, self.port = with_port(*peer[:2]), local[1]
        if self._tap is not None:
            self._tapped = self._tap.connected(share.position)
        self._channel = RemotingChannel(
            *(self.write, self.peer, advertised.address, advertised.store_host, self.hang_up, self._load),
            share,
            name_server,
            is_slave=is_slave,
        )
        self._transport.set_write_buffer_limits(high=UNREAD_BYTES)
        self._hub.connections.add(self)
        log.debug("%s connected to port %d", self.peer, local[1])

    def look_at_role(self) -> None:
        """Serve the next requests in the port's new role, if a promotion has changed it."""
        reached = self._hub.reached(*self._ends)
        channel = self._channel
        if reached.is_slave != channel.is_slave or reached.advertised.address != channel.advertised:
            self._dispatcher, channel.is_slave = reached.dispatcher, reached.is_slave
            channel.advertised, channel.store_host = reached.advertised

    @property
    def incomplete(self) -> int:
        """Bytes read of the incomplete frame."""
        return self._reader.buffered

    @property
    def lacking(self) -> int:
        """Bytes missing from the incomplete frame."""
        return self._reader.lacking

    @property
    def unread(self) -> int:
        """Bytes of responses that the client has not read."""
        return self._transport.get_write_buffer_size()

    @property
    def is_stalled(self) -> bool:
        """Whether a large frame has been incomplete for some time, although reading is not paused."""
        return not self._is_paused and self.quiet > 1 and self.incomplete > FREE_BYTES

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the size that the transport suggests
        """The buffer for the next read. Connections share it, because each read is copied out at once."""
        return self._hub.short if self._hub.budget.is_spent else self._hub.full

    def buffer_updated(self, nbytes: int) -> None:
        """Copy the received bytes out of the shared buffer."""
        data = bytes(self._hub.full[:nbytes])
        if self._is_new:
            self._is_new = False
            if self._begin_tls(data):
                return
        self.received(data)

    def _begin_tls(self, data: bytes) -> bool:
        """Start TLS if the client's first byte begins it. Returns False to continue without TLS.

        Aborts the connection, and returns True, if the client violates the TLS mode.
        """
        try:
            layer = self._hub.tls.begin_tls(data, cast(asyncio.Transport, self._transport), self)
        except TlsModeError as error:
            self.abort(str(error))
            return True
        self._transport = layer or self._transport
        return layer is not None

    def received(self, data: bytes) -> None:
        """Start the requests that these bytes complete."""
        self.quiet = 0
        commands: Sequence[Command]
        try:
            commands = self._reader.feed(data)
        except FrameError as error:
            commands, self._is_broken = error.before, True
            why = str(error)
            if not self.frames and is_http(data):
                self._transport.write(ANSWER)
                why = WRONG_PORT
            log.warning("closing connection from %s: %s", self.peer, why)
        self.frames += len(commands)
        if self._is_cut_off:
            self._lost += commands
            self._lost_bytes += sum(map(memory_of, commands))
        else:
            self._take(commands)
        self._account()

    @property
    def _is_cut_off(self) -> bool:
        return bool(self._hub.cut_off) and self.port in self._hub.cut_off

    def reconnected(self) -> None:
        """Serve the requests received while the broker was cut off, and send the responses made meanwhile."""
        commands, self._lost, self._lost_bytes = self._lost, [], 0
        self._take(commands)
        self._end_turn()

    def _take(self, commands: Sequence[Command]) -> None:
        hub, now_us = self._hub, steady_us()
        # Requests of one iteration of the event loop share a transaction. If a single client sends one
        # request at a time, there is nothing to share, and the writer need not wait for the iteration's end.
        is_lone = hub.last_reader is self and len(commands) == 1 and self._requests.is_fast_path_idle
        hub.last_reader = self
        hub.writer.hold()
        try:
            for command in commands:
                command.received_us = now_us
            for run in self._dispatcher.runs(commands):
                if len(run) == 1 or run[0].is_response or self._tap is not None or not self._begin(run):
                    for command in run:
                        self._start(command)
        finally:
            hub.writer.release(at_once=is_lone)

    def _start(self, command: Command) -> None:
        if command.is_response:
            self._channel.answered(command)
            return
        if self._tap is not None:
            command.tap_number = self._tap.asked(self._tapped, command)
        if self._begin([command]):
            return
        size = memory_of(command)
        long_poll = self._dispatcher.long_poll(command.code)
        if long_poll and self._requests.may_wait(size):
            self._requests.wait(self._task(command, may_wait=True), size)
        elif long_poll is LongPoll.REFUSED:
            self._answer(command, self._dispatcher.counted(self._channel.share, command, _BUSY), _now_us())
            self._end_turn_soon()
        else:
            is_reading = self._dispatcher.is_reading(command.code)
            task = self._task(command, may_wait=False)
            self._requests.run(task, size, is_reading=is_reading)
            task.add_done_callback(self._has_run)

    def _begin(self, run: Sequence[Command]) -> bool:
        """Begin requests on the fast path.

        Returns False if they are not plain, if earlier requests wait, or if requests are logged.
        """
        if self._requests.unbegun or _now_us() is not None:
            return False
        size = sum(map(memory_of, run))
        if not self._dispatcher.begin_run(self._channel, run, partial(self._reply, size)):
            return False
        self._requests.begin_fast(len(run), size)
        return True

    def _reply(self, size: int, run: Sequence[Command], responses: Sequence[Response]) -> None:
        """Respond to requests on the fast path that use ``size`` bytes of memory."""
        answers = self._dispatcher.counted_run(self._channel.share, run, responses)
        for command, answer in zip(run, answers, strict=True):
            self._answer(command, answer, None)
        self._requests.end_fast(len(run), size)
        if self._requests.is_fast_path_idle:
            self._end_turn()  # all responses are ready
        else:
            self._end_turn_soon()

    def _task(self, command: Command, *, may_wait: bool) -> asyncio.Task[None]:
        self._requests.unbegun += 1
        return self._loop.create_task(self._serve(command, may_wait=may_wait))

    def _has_run(self, _task: asyncio.Task[None]) -> None:
        self._account()

    async def _serve(self, command: Command, *, may_wait: bool) -> None:
        self._requests.unbegun -= 1
        began_us = _now_us()
        answer = await self._dispatcher.answer(self._channel, command, may_wait=may_wait)
        if answer is not None:
            self._answer(command, answer, began_us)
            self._end_turn_soon()

    def _answer(self, command: Command, answer: Command, began_us: int | None) -> None:
        if began_us is not None:
            log.debug(request_line(self.peer, command, answer, steady_us() - began_us))
        if self._tap is not None:
            self._tap.answered(command.tap_number, answer)
        if command.is_oneway:
            return
        try:
            self._put(answer)
        except FrameError as error:
            self._put(
                command.answer(ResponseCode.SYSTEM_ERROR, {}, b"", f"the response cannot be sent: {error}")
            )

    def _load(self) -> MessageLoad:
        """Begin to count the memory of the current request's messages, until the request's task ends."""
        load = MessageLoad(self._hub.messages, self)
        task = asyncio.current_task()
        if task is not None:
            task.add_done_callback(load.end)
        return load

    def write(self, command: Command) -> None:
        """Send a command at the end of the event loop's iteration, unless the client has disconnected."""
        self._put(command)
        self._end_turn_soon()

    def _put(self, command: Command) -> None:
        if not self._transport.is_closing():
            command.version = self._hub.version
            self._out.append(encode(command))

    def _end_turn_soon(self) -> None:
        if not self._ends_turn_soon:
            self._ends_turn_soon = True
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._ends_turn_soon = False
        if self._out and not self._is_cut_off:
            self._flush()
        self._account()

    def _flush(self) -> None:
        data = b"".join(self._out)
        self._out.clear()
        if self._transport.is_closing():
            return
        self._transport.write(data)
        messages = self._hub.messages
        if self in messages.unread:
            own = self.unread
            messages.set_unread(self, own)
            if messages.unread_bytes > MAX_UNREAD_BYTES < own * len(messages.unread):
                self.abort(f"the client has not read its responses: {own} bytes unread")

    def pause_writing(self) -> None:
        """Stop reading requests, because the client does not read its responses."""
        self._hub.messages.set_unread(self, self.unread)
        self.regulate()

    def resume_writing(self) -> None:
        """Read requests again, because the client has read most of its responses."""
        self._hub.messages.has_read(self)
        self.regulate()

    def _account(self) -> None:
        """Update the held bytes. After an invalid frame, close once all earlier requests are answered."""
        self._hub.budget.change(self, self._reader.buffered + self._requests.running_bytes + self._lost_bytes)
        if self._is_broken and self._requests.have_run:
            self._flush()
            self._transport.close()
        self.regulate()

    def regulate(self) -> None:
        """Pause or resume reading as the limits require."""
        if self._transport.is_closing():
            return
        is_paused = (
            not self._hub.budget.may_read(self)
            or self in self._hub.messages.unread
            or self._is_stopping
            or self._is_broken
            or bool(self._lost)
            or self._requests.is_at_limit
        )
        if is_paused is not self._is_paused:
            self._is_paused = is_paused
            if is_paused:
                self._hub.has_paused = True
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def hang_up(self, fault: str) -> None:
        """Close the connection for an injected fault, after sending the responses that are ready."""
        self._flush()
        self.abort(f"injected fault {fault}", logging.INFO)

    def abort(self, why: str, level: int = logging.WARNING) -> None:
        """Close the connection at once, and log why."""
        log.log(level, "closing connection from %s: %s", self.peer, why)
        self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        """Cancel requests that only read. Other requests finish, because they change state."""
        log.debug("%s disconnected (requests: %d)", self.peer, self.frames)
        hub = self._hub
        if self._tap is not None:
            self._tap.disconnected(self._tapped)
        hub.connections.discard(self)
        if hub.last_reader is self:
            hub.last_reader = None
        self._channel.end()
        hub.messages.has_read(self)
        self._reader = FrameReader()
        self._lost, self._lost_bytes = [], 0
        self._account()
        hub.budget.leave(self)
        hub.leaving.add(self)
        self._ending = self._loop.create_task(self._end())

    async def _end(self) -> None:
        self._requests.cancel_reads()
        await self._requests.end()
        try:
            self._hub.gone(self._channel)
        finally:
            self._channel.let_go()
            self._hub.leaving.discard(self)
            self._ended.set()

    async def close(self) -> None:
        """Stop reading, answer the requests in progress, and send the responses."""
        self._is_stopping = True
        self._channel.end()
        self.regulate()
        await self._requests.end()
        if self._out:
            self._flush()
        self._transport.close()
        await self._ended.wait()

    def let_go(self) -> None:
        """Cancel the requests in progress, and close at once."""
        self._requests.cancel()
        self._transport.abort()


def _now_us() -> int | None:
    """The start time of a request if requests are logged, otherwise None."""
    return steady_us() if log.isEnabledFor(logging.DEBUG) else None
