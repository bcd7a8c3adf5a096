"""Records the requests to a running broker and its answers in the file of ``--record-requests``.

The doors report requests and answers, which only adds an entry to a list. A thread makes the lines and writes
them five times a second, without a sync, so the last lines may be missing after a kill. If the disk is slower
than the clients, the recorder drops events and records how many, so that no client waits for the recording.
"""

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from mocketmq.broker.registry.topics import Topics
from mocketmq.clock import US_PER_MS, Clock, wall_us
from mocketmq.door_tap import GrpcAnswerMade, GrpcRequestRead, HttpAnswerMade, HttpRequestRead
from mocketmq.recording.masks import Masks
from mocketmq.recording.recording import VERSION, RecordingHeader, RecordingWriter
from mocketmq.recording.requests import http_form, remoting_form
from mocketmq.recording.requests.request_file import EventKind, RequestEvent
from mocketmq.recording.writer_thread import WriterThread
from mocketmq.remoting.wire.command import Command

log = logging.getLogger(__name__)

MOST_WAITING_BYTES: Final = 16 << 20
"""Approximate limit on the memory of events that are not in the file yet; further events are dropped."""
MOST_BYTES: Final = 1 << 30
"""Size of the file at which a recording ends."""
_EVENT_BYTES: Final = 1 << 10
_SAME_MS: Final = 1_000
"""Maximum difference at which the broker's clock counts as equal to the wall clock."""


class _Happened(NamedTuple):
    """An event to be written, with the door's report."""

    kind: EventKind
    at_us: int
    wall_us: int
    number: int
    connection: int
    reported: Any
    broker: int = 0


class _Unanswered(NamedTuple):
    """A request that has no answer yet. ``code`` is set for remoting, ``rpc`` for gRPC."""

    connection: int
    code: int
    rpc: str


class RequestRecorder:
    """A tap of the doors that records into a new file, or continues the file of an earlier run.

    Raises RecordingError.
    """

    def __init__(self, path: Path, clock: Clock, topics: Topics, masks: Masks) -> None:
        header = RecordingHeader(
            recording=VERSION, source="mocketmq", queues={}, masks=masks.texts, requests=True
        )
        begin = RecordingWriter.reopen if path.exists() else RecordingWriter.create
        self._writer = begin(path, header)
        self._clock = clock
        self._masks = masks
        self._connections = self._requests = self._lost = 0
        self._waiting: list[_Happened] = []
        self._bytes = self._bytes_in_thread = 0
        self._thread = WriterThread(
            "recording-requests", "the recording of requests", self._writer, self._write
        )
        self._unanswered: dict[int, _Unanswered] = {}
        self._open: dict[int, set[int]] = {}  # numbers of unanswered requests, by connection
        self._brokers: dict[int, int] = {}  # index of the broker by connection, unless it is the first broker
        begun = {
            f"{each.topic}/{each.queue_id}": each.next_offset for each in topics.queues if each.next_offset
        }
        self._note("start", 0, 0, {"offsets": begun}, 0)

    def start(self) -> None:
        """Start writing in the background."""
        self._thread.start()

    # The tap

    def connected(self, broker: int = 0) -> int:
        """Return the number of a new connection to a broker of this index."""
        self._connections += 1
        if broker:
            self._brokers[self._connections] = broker
        return self._connections

    def disconnected(self, connection: int) -> None:
        self._brokers.pop(connection, None)
        self._note("left", 0, connection, None, 0)

    def asked(self, connection: int, request: Any) -> int:
        """Record a request. Return its number, or 0 if it is dropped."""
        number = self._requests + 1
        if not self._note("request", number, connection, request, _size_of(request)):
            return 0
        self._requests = number
        return number

    def answered(self, number: int, answer: Any) -> None:
        """Record the answer to a request."""
        if number:
            parts = answer.responses if isinstance(answer, GrpcAnswerMade) else (answer.body or b"",)
            self._note("answer", number, 0, answer, sum(map(len, parts)))

    # The rest

    @property
    def _grpc(self) -> Any:
        """The module for gRPC, imported on first use because it needs protobuf."""
        from mocketmq.recording.requests import grpc_form  # noqa: PLC0415

        return grpc_form

    def _note(self, kind: EventKind, number: int, connection: int, reported: Any, size: int) -> bool:
        if self._thread.has_ended:
            return False
        size += _EVENT_BYTES
        if self._bytes + self._bytes_in_thread + size > MOST_WAITING_BYTES:
            self._lost += 1
            return False
        self._bytes += size
        self._waiting.append(
            _Happened(
                *(kind, self._clock.now_us(), wall_us(), number, connection, reported),
                self._brokers.get(connection, 0),
            )
        )
        return True

    async def close(self) -> None:
        """Write all recorded events to the disk."""
        await self._thread.close()

    def _write(self) -> None:
        """Let the thread write the waiting events after those that it is already writing."""
        if not self._thread.is_writing:
            self._bytes_in_thread = 0
        if not self._waiting and not self._lost:
            return
        waiting, lost = self._waiting, self._lost
        if lost:
            waiting.append(_Happened("lost", self._clock.now_us(), wall_us(), lost, 0, None))
        self._bytes_in_thread += self._bytes
        self._waiting, self._bytes, self._lost = [], 0, 0
        self._thread.put(partial(self._append, waiting))

    # In the thread

    def _append(self, events: Sequence[_Happened]) -> None:
        if self._thread.has_ended:
            return
        try:
            lines = [line for event in events if (line := self._line_or_loss(event)) is not None]
            self._writer.write(lines)
            if self._writer.size > MOST_BYTES:
                self._thread.has_ended = True
                self._writer.write([RequestEvent(kind="full", at_ms=events[-1].at_us // US_PER_MS)])
                log.warning(
                    "the recording of requests ended: it reached the limit of %d MiB", MOST_BYTES >> 20
                )
        except Exception as error:  # noqa: BLE001 - a recording must not harm the broker
            self._thread.fail(error)

    def _line_or_loss(self, event: _Happened) -> RequestEvent | None:
        """Return the line of an event, if it has one. If an event has no form, only that event is lost."""
        try:
            return self._line(event)
        except Exception as error:  # noqa: BLE001 - whatever a client sends, the recording goes on
            log.warning("cannot record the %s %d: %s", event.kind, event.number, error)
            return RequestEvent(kind="lost", at_ms=event.at_us // US_PER_MS, number=1)

    def _line(self, event: _Happened) -> RequestEvent | None:
        """Return the line of an event, if it has one."""
        at_ms = event.at_us // US_PER_MS
        match event.kind:
            case "request":
                door, content = self._request(event.reported)
                self._await_answer(event)
                ahead_ms = at_ms - event.wall_us // US_PER_MS
                return RequestEvent(
                    kind="request",
                    at_ms=at_ms,
                    number=event.number,
                    connection=event.connection,
                    door=door,
                    broker=event.broker,
                    ahead_ms=ahead_ms if abs(ahead_ms) > _SAME_MS else 0,
                    content=content,
                )
            case "answer":
                asked = self._unanswered.pop(event.number, None)
                if asked is None:  # the client has disconnected
                    return None
                self._open[asked.connection].discard(event.number)
                content = self._answer(event.reported, asked.code, asked.rpc)
                return RequestEvent(kind="answer", at_ms=at_ms, number=event.number, content=content)
            case "left":
                unanswered = self._open.pop(event.connection, None)
                if unanswered is None:  # the client sent no request
                    return None
                for number in unanswered:
                    del self._unanswered[number]
        return RequestEvent(
            kind=event.kind,
            at_ms=at_ms,
            number=event.number,
            connection=event.connection,
            content=event.reported or {},
        )

    def _await_answer(self, event: _Happened) -> None:
        request = event.reported
        code = request.code if isinstance(request, Command) else 0
        rpc = request.rpc if isinstance(request, GrpcRequestRead) else ""
        self._unanswered[event.number] = _Unanswered(event.connection, code, rpc)
        self._open.setdefault(event.connection, set()).add(event.number)

    def _request(self, request: Any) -> tuple[str, dict[str, Any]]:
        """Return the door and the form of a request."""
        match request:
            case Command():
                return "remoting", remoting_form.request_form(request, self._masks)
            case GrpcRequestRead():
                return "grpc", self._grpc.request_form(request, self._masks)
            case HttpRequestRead():
                return http_form.door_of(request), http_form.request_form(request, self._masks)
        raise TypeError(type(request))

    def _answer(self, answer: Any, code: int, rpc: str) -> dict[str, Any]:
        match answer:
            case GrpcAnswerMade():
                return dict(self._grpc.answer_form(rpc, answer, self._masks))
            case Command():
                return remoting_form.answer_form(code, answer, self._masks)
            case HttpAnswerMade():
                return http_form.answer_form(answer, self._masks)
        raise TypeError(type(answer))


def _size_of(request: Any) -> int:
    """Return the approximate size of a request: its body, and fields that clients choose."""
    fields = request.ext.values() if isinstance(request, Command) else ()
    return len(request.body) + sum(map(len, fields))
