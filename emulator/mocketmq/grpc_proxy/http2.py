"""The server side of HTTP/2 for gRPC (RFC 9113): reads frames, serves streams, writes frames.

Implements only what a gRPC server needs, without push and priorities. The `h2` library is not used, because
its state machine forbids responses after a GOAWAY, processes frames before they can be counted, and scans all
open streams whenever a stream begins.

``fair_share`` decides when frames are handled, a few of each connection at a time, so that no client delays
others.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from mocketmq.clock import US_PER_S, steady_us
from mocketmq.grpc_proxy.client_limits import (
    BYTES_PER_ANSWERED,
    MAX_DRAINED_BYTES,
    MAX_FRAME_BYTES,
    MAX_HEADER_BYTES,
    MAX_STREAMS,
    SMALL_BYTES,
    STALLED_S,
    WINDOW_BYTES,
)
from mocketmq.grpc_proxy.codes import Status, StatusError
from mocketmq.grpc_proxy.fair_share import FairShare
from mocketmq.grpc_proxy.flood_guard import FloodGuard
from mocketmq.grpc_proxy.frames import (
    ACK,
    DEFAULT_WINDOW,
    EMPTY_TABLE,
    END_STREAM,
    MAX_WINDOW,
    Frame,
    Http2Code,
    Http2Error,
    Http2FrameReader,
    Http2Setting,
    frame,
    goaway_frame,
    settings_frame,
    without_padding,
)
from mocketmq.grpc_proxy.header_blocks import Fields, HeaderBlocks, request_headers
from mocketmq.grpc_proxy.memory import Memory
from mocketmq.grpc_proxy.stream import Stream
from mocketmq.grpc_proxy.waiting_streams import WaitingStreams

_SETTINGS: Final = settings_frame(
    {
        Http2Setting.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
        Http2Setting.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
        Http2Setting.MAX_HEADER_LIST_SIZE: MAX_HEADER_BYTES,
    }
)
_LARGEST_FRAME: Final = (1 << 24) - 1

Serve = Callable[[Stream], None]
"""Called with each stream when its headers have arrived, and again when more of its request arrives."""


class Http2:
    """The HTTP/2 protocol of one connection.

    ``connection`` is its transport: ``write(bytes)``, ``room`` (bytes that may be written), ``refuse(why)``.
    """

    def __init__(self, connection: Any, memory: Memory, fair_share: FairShare, serve: Serve) -> None:
        self.connection = connection
        self.memory = memory
        self._fair_share = fair_share
        self.streams: dict[int, Stream] = {}
        self.max_frame_bytes = MAX_FRAME_BYTES
        self.is_leaving = False  # the client or the server has sent GOAWAY
        self.is_behind = False  # frames wait to be handled
        self.is_dead = False  # nothing that is written will reach the client
        self.serve = serve
        self._guard = FloodGuard()
        self._blocks = HeaderBlocks()
        self._frames = Http2FrameReader()
        self._has_settings = False
        self._last_id = 0
        self._initial_window = DEFAULT_WINDOW
        self._send_window = DEFAULT_WINDOW
        self._receive_window = WINDOW_BYTES
        self._consumed = 0
        self._is_first_block = True
        self._drained: dict[int, int] = {}  # dropped bytes of requests that were answered early, by stream
        self._ending: list[Stream] = []  # streams of a dead connection that are not cancelled yet
        self._waiting = WaitingStreams()
        self._handlers: Final[dict[int, Callable[[int, int, memoryview], None]]] = {
            Frame.DATA: self._data,
            Frame.HEADERS: self._headers,
            Frame.PRIORITY: self._priority,
            Frame.RST_STREAM: self._rst_stream,
            Frame.SETTINGS: self._settings,
            Frame.PUSH_PROMISE: self._push_promise,
            Frame.PING: self._ping,
            Frame.GOAWAY: self._goaway,
            Frame.WINDOW_UPDATE: self._window_update,
        }
        self.write(_SETTINGS)
        self.write(self._window_frame(0, WINDOW_BYTES - DEFAULT_WINDOW))

    # Incoming frames

    def received(self, data: bytes) -> None:
        if self.is_dead:
            return
        self._frames.feed(data)
        if not self.is_behind:
            self._fair_share.arrived(self)

    def work(self, frames: int) -> int:
        """Handle up to this many frames, and wait again if more are left; return how many were not needed."""
        if self.is_dead:
            self._end_streams(frames)
            return 0
        try:
            # ``is_behind`` must not change until the frames are handled. Each request begun here regulates
            # reading, and would resume it if ``is_behind`` were false.
            unused = self._frames.handle_frames(frames, self._handle)
        except Http2Error as error:
            self.is_behind = False
            self._die(error)
            return 0
        except Exception:
            self.is_behind = False
            self.connection.abort("a defect in mocketmq")
            raise
        was_behind, self.is_behind = self.is_behind, unused is None
        if self.is_behind:
            self._fair_share.wait(self)
        if self.is_behind is not was_behind:
            self.connection.regulate()
        return unused or 0

    def _handle(self, kind: int, flags: int, stream_id: int, payload: memoryview) -> None:
        if self._blocks.is_open or kind == Frame.CONTINUATION:
            self._request(self._blocks.go_on(kind, flags, stream_id, payload))
            return
        if not self._has_settings and kind != Frame.SETTINGS:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        handler = self._handlers.get(kind)
        if handler is None:
            self._guard.empty()
            return
        handler(flags, stream_id, payload)

    def _data(self, flags: int, stream_id: int, payload: memoryview) -> None:
        size, has_ended = len(payload), bool(flags & END_STREAM)
        self._check_known(stream_id)
        content = without_padding(flags, payload)
        if not has_ended and len(content) < SMALL_BYTES:
            self._guard.answered() if content else self._guard.empty()
        self._receive_window -= size
        if self._receive_window < 0:
            raise Http2Error(
                Http2Code.FLOW_CONTROL_ERROR, "the client exceeded the connection's flow-control window"
            )
        self._consumed += size
        if self._consumed >= WINDOW_BYTES // 2:
            self.write(self._window_frame(0, self._consumed))
            self._receive_window += self._consumed
            self._consumed = 0
        stream = self.streams.get(stream_id)
        if stream is None:
            self._drain(stream_id, size, has_ended)
            return
        if stream.has_ended:
            self._reset(stream, Http2Code.STREAM_CLOSED)
            return
        stream.receive_window -= size
        if stream.receive_window < 0:
            self._reset(stream, Http2Code.FLOW_CONTROL_ERROR)
            return
        stream.receive(content)
        if has_ended:
            stream.end()
        else:
            stream.consumed += size
            if stream.consumed >= WINDOW_BYTES // 2 and stream.is_open:
                self.write(self._window_frame(stream_id, stream.consumed))
                stream.receive_window += stream.consumed
                stream.consumed = 0
        self.serve(stream)

    def _drain(self, stream_id: int, size: int, has_ended: bool) -> None:
        """Drop the rest of a refused request; some clients read no response before all of it is sent."""
        drained = self._drained.pop(stream_id, None)
        if drained is None:
            self._guard.answered()
        elif drained + size > MAX_DRAINED_BYTES:
            self.write_reset(stream_id, Http2Code.NO_ERROR)
        elif not has_ended:
            self._drained[stream_id] = drained + size
            if size:
                self.write(self._window_frame(stream_id, size))

    def _headers(self, flags: int, stream_id: int, payload: memoryview) -> None:
        self._request(self._blocks.begin_block(flags, stream_id, payload))

    def _request(self, fields: Fields | None) -> None:
        if fields is None:
            return
        stream_id, has_ended = self._blocks.stream_id, bool(self._blocks.flags & END_STREAM)
        if stream_id <= self._last_id:
            self._trailers(stream_id, has_ended=has_ended)
            return
        self._last_id = stream_id
        if self.is_leaving or len(self.streams) + len(self._drained) >= MAX_STREAMS:
            self._refuse(stream_id, Http2Code.REFUSED_STREAM)
            return
        headers = request_headers(fields)
        if headers is None:
            self._refuse(stream_id, Http2Code.PROTOCOL_ERROR)
            return
        stream = self.streams[stream_id] = Stream(self, stream_id, headers)
        self.memory.opened()
        stream.send_window = self._initial_window
        if has_ended:
            stream.end()
        self.serve(stream)

    def _trailers(self, stream_id: int, *, has_ended: bool) -> None:
        stream = self.streams.get(stream_id)
        if stream is None:
            self._guard.answered()
            self._drained.pop(stream_id, None)
        elif stream.has_ended:
            self._reset(stream, Http2Code.STREAM_CLOSED)
        elif not has_ended:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "the trailers did not end their stream")
        else:
            stream.end()
            self.serve(stream)

    def _priority(self, flags: int, stream_id: int, payload: memoryview) -> None:  # noqa: ARG002
        self._guard.empty()
        if not stream_id:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "a PRIORITY frame was sent on stream 0")
        stream = self.streams.get(stream_id)
        if len(payload) != 5:
            code = Http2Code.FRAME_SIZE_ERROR
        elif int.from_bytes(payload[:4], "big") & MAX_WINDOW == stream_id:
            code = Http2Code.PROTOCOL_ERROR
        else:
            return
        if stream is None:
            raise Http2Error(code, "a PRIORITY frame is malformed")
        self._reset(stream, code)

    def _rst_stream(self, flags: int, stream_id: int, payload: memoryview) -> None:  # noqa: ARG002
        self._check_known(stream_id)
        _check_size("RST_STREAM", payload, 4)
        self._guard.reset()
        self._drained.pop(stream_id, None)
        stream = self.streams.get(stream_id)
        if stream is not None:
            stream.cancel()

    def _settings(self, flags: int, stream_id: int, payload: memoryview) -> None:
        self._has_settings = True
        if stream_id:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "a SETTINGS frame was sent on a stream")
        self._guard.settings()
        if flags & ACK:
            _check_size("SETTINGS with ACK", payload, 0)
            return
        if len(payload) % 6:
            raise Http2Error(Http2Code.FRAME_SIZE_ERROR, "the size of SETTINGS is not a multiple of 6")
        window = self._initial_window
        for at in range(0, len(payload), 6):
            self._set(
                int.from_bytes(payload[at : at + 2], "big"), int.from_bytes(payload[at + 2 : at + 6], "big")
            )
        if self._initial_window != window:  # once per frame, because a frame may set the window 2,730 times
            self._widen(self._initial_window - window)
        self.write(frame(Frame.SETTINGS, ACK, 0))

    def _set(self, key: int, value: int) -> None:
        if key == Http2Setting.INITIAL_WINDOW_SIZE:
            if value > MAX_WINDOW:
                raise Http2Error(Http2Code.FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE exceeds 2^31 - 1")
            self._initial_window = value
        elif key == Http2Setting.MAX_FRAME_SIZE:
            if not MAX_FRAME_BYTES <= value <= _LARGEST_FRAME:
                allowed = f"{MAX_FRAME_BYTES} to {_LARGEST_FRAME}"
                raise Http2Error(Http2Code.PROTOCOL_ERROR, f"MAX_FRAME_SIZE is {value}; allowed: {allowed}")
        elif key == Http2Setting.ENABLE_PUSH and value > 1:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, f"ENABLE_PUSH is {value}; allowed: 0 or 1")

    def _widen(self, change: int) -> None:
        """Change the windows of all streams by this many bytes."""
        for stream in list(self.streams.values()):
            stream.send_window += change
            if stream.send_window > MAX_WINDOW:
                raise Http2Error(Http2Code.FLOW_CONTROL_ERROR, "a flow-control window exceeds 2^31 - 1")
            self.pump(stream)

    def _push_promise(self, flags: int, stream_id: int, payload: memoryview) -> None:  # noqa: ARG002
        raise Http2Error(
            Http2Code.PROTOCOL_ERROR, "the client sent PUSH_PROMISE, which only a server can send"
        )

    def _ping(self, flags: int, stream_id: int, payload: memoryview) -> None:
        if stream_id:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "a PING frame was sent on a stream")
        _check_size("PING", payload, 8)
        self._guard.answered()
        if not flags & ACK:
            self.write(frame(Frame.PING, ACK, 0, payload.tobytes()))

    def _goaway(self, flags: int, stream_id: int, payload: memoryview) -> None:  # noqa: ARG002
        """Note that the client begins no further streams. Requests in progress may still finish."""
        if stream_id:
            raise Http2Error(Http2Code.PROTOCOL_ERROR, "a GOAWAY frame was sent on a stream")
        self._guard.empty()
        self.leave()

    def _window_update(self, flags: int, stream_id: int, payload: memoryview) -> None:  # noqa: ARG002
        _check_size("WINDOW_UPDATE", payload, 4)
        self._guard.answered()
        increment = int.from_bytes(payload, "big") & MAX_WINDOW
        if not stream_id:
            self._send_window += increment
            if not increment:
                raise Http2Error(Http2Code.PROTOCOL_ERROR, "a WINDOW_UPDATE frame has the increment 0")
            if self._send_window > MAX_WINDOW:
                raise Http2Error(
                    Http2Code.FLOW_CONTROL_ERROR, "the connection's flow-control window exceeds 2^31 - 1"
                )
            self.pump_blocked()
            return
        self._check_known(stream_id)
        stream = self.streams.get(stream_id)
        if stream is None:
            return
        stream.send_window += increment
        if not increment:
            self._reset(stream, Http2Code.PROTOCOL_ERROR)
        elif stream.send_window > MAX_WINDOW:
            self._reset(stream, Http2Code.FLOW_CONTROL_ERROR)
        else:
            self.pump(stream)

    def _check_known(self, stream_id: int) -> None:
        if not stream_id or stream_id > self._last_id or not stream_id & 1:
            raise Http2Error(
                Http2Code.PROTOCOL_ERROR, f"a frame was sent on stream {stream_id}, which is idle"
            )

    def _reset(self, stream: Stream, code: Http2Code) -> None:
        """Reset a stream because of the client's mistake."""
        self._refuse(stream.stream_id, code)
        stream.cancel()

    def _refuse(self, stream_id: int, code: Http2Code) -> None:
        """Reset a stream, and count the reset as if the client had sent it (CVE-2025-8671)."""
        self._guard.reset()
        self.write_reset(stream_id, code)

    # Outgoing frames

    def write(self, data: bytes) -> None:
        """Send whole frames."""
        self.connection.write(data)

    def write_headers(self, stream_id: int, flags: int, block: bytes) -> None:
        if self._is_first_block:
            self._is_first_block = False
            block = EMPTY_TABLE + block
        self.write(frame(Frame.HEADERS, flags, stream_id, block))

    def write_reset(self, stream_id: int, code: Http2Code) -> None:
        self.write(frame(Frame.RST_STREAM, 0, stream_id, code.to_bytes(4, "big")))

    def _window_frame(self, stream_id: int, increment: int) -> bytes:
        return frame(Frame.WINDOW_UPDATE, 0, stream_id, increment.to_bytes(4, "big"))

    def drain(self, stream: Stream) -> None:
        """Drop all data that the client still sends on a finished stream."""
        self._drained[stream.stream_id] = 0

    def pump(self, stream: Stream) -> None:
        """Send a stream's pending bytes, as far as the windows and the connection's room allow."""
        if not stream.wants_window:
            return
        written = stream.pump(min(self._send_window, self.connection.room))
        self._send_window -= written
        self._guard.sent(written)
        self._waiting.pumped(stream, written)

    def pump_blocked(self) -> None:
        """Resume waiting streams, first come, first served."""
        for stream in self._waiting.blocked():
            if self._send_window <= 0 or self.connection.room <= 0:
                break
            self.pump(stream)

    def is_slow_reader(self, limit_us: int) -> bool:
        """Whether the client has read less than ``LEAST_READ_BYTES`` since ``limit_us``, by the steady clock.

        PINGs and other responses do not count: a client may give windows to these and not to a large one.
        """
        return self._waiting.are_slow(limit_us)

    # Closing

    def forget(self, stream: Stream) -> None:
        """Remove a stream."""
        self.streams.pop(stream.stream_id, None)
        self.memory.closed()
        self._waiting.remove(stream)
        self._guard.sent(BYTES_PER_ANSWERED)
        if self.is_leaving:
            self._close_if_done()

    def leave(self) -> None:
        """Accept no further streams, make waiting handlers finish early, and close after the last stream."""
        if self.is_leaving or self.is_dead:
            return
        self.is_leaving = True
        self.write(goaway_frame(self._last_id, Http2Code.NO_ERROR))
        for stream in list(self.streams.values()):
            stream.hurry()
        self._close_if_done()

    def _close_if_done(self) -> None:
        """Close if no request is running. If only endless streams are left, end them."""
        if not self.streams:
            self.connection.close()
        elif all(stream.rpc is not None and stream.rpc.is_streaming for stream in self.streams.values()):
            for stream in self.streams.values():
                stream.read_no_more()

    def refuse_stalled(self) -> Iterator[None]:
        """Refuse requests that have stalled for too long; yields after each request."""
        limit_us = steady_us() - int(STALLED_S * US_PER_S)
        for stream in list(self.streams.values()):
            if stream.is_open and not stream.is_ready and stream.moved_us < limit_us:
                stream.give_up(StatusError(Status.CANCELLED, f"the request stalled for {STALLED_S:g} s"))
            yield

    def _die(self, error: Http2Error) -> None:
        """Send GOAWAY with the reason, and cancel the client's streams."""
        if not self._frames.has_preface:  # the client does not speak HTTP/2
            self.is_dead = True
            self.connection.abort(str(error))
            return
        self.write(goaway_frame(self._last_id, error.code, str(error)))
        self.lost()
        self.connection.refuse(str(error))

    def lost(self) -> None:
        """Cancel all streams of a lost connection, a few per iteration of the event loop."""
        if self.is_dead:
            return
        self.is_dead = True
        self._frames.clear()
        self._handlers.clear()  # bound methods would keep this object alive until a garbage collection
        self._ending = list(self.streams.values())
        if self._ending and not self.is_behind:
            self.is_behind = True
            self._fair_share.wait(self)

    def end(self) -> None:
        """Cancel all streams like ``lost``, but at once."""
        self.lost()
        self._end_streams(len(self._ending))

    def _end_streams(self, count: int) -> None:
        for _ in range(min(count, len(self._ending))):
            self._ending.pop().cancel()
        if self._ending:
            self.is_behind = True
            self._fair_share.wait(self)


def _check_size(what: str, payload: memoryview, size: int) -> None:
    if len(payload) != size:
        raise Http2Error(Http2Code.FRAME_SIZE_ERROR, f"{what} has {len(payload)} bytes; allowed: {size}")
