"""Replays recorded requests on another broker, and compares its answers with the recorded ones.

The replay plays the events of a recording in their order, one at a time, so that the outcome does not depend
on chance. The replay sends a request at the recorded time of its response, when the request took effect, and
after all earlier requests of the same connection. The same holds for a long poll, so the poll finds the
messages for which the recorded poll waited: requests in progress at that time are sent before the poll,
except sends whose messages the poll did not get. Each request keeps its recorded distance from the start, on
the broker's clock.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from mocketmq.calling.call import NoAnswerError
from mocketmq.client.asynchronous import Client
from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.recording.pace import Pace
from mocketmq.recording.recording import RecordingError, RecordingReader
from mocketmq.recording.requests.answer_difference import AnswerDifference, differences, document_in
from mocketmq.recording.requests.changed_requests import (
    chooses_no_queue,
    found_nothing,
    ids_of_sent,
    queues_in,
    wait_ms,
    with_queues,
    without_wait,
)
from mocketmq.recording.requests.findings import Findings
from mocketmq.recording.requests.players import Form, PlayedConnection, PlayedHttp, PlayedRemoting
from mocketmq.recording.requests.request_file import EventLine, RequestEvent, events_in
from mocketmq.recording.requests.value_map import ValueMap
from mocketmq.remoting.wire.codes import RequestCode

PATIENCE_S: Final = 20.0
"""Real seconds to wait for an answer, in addition to the waiting time of the request itself."""
_OF_PROCESS: Final = {
    *(RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.VIEW_BROKER_STATS_DATA, RequestCode.GET_BROKER_CONFIG),
    *(RequestCode.GET_NAMESRV_CONFIG, RequestCode.GET_BROKER_HA_STATUS),
}
"""Requests whose answers describe the broker's process. Only their codes are compared."""
_PATHS_OF_PROCESS: Final = ("/v1/info", "/v1/reports", "/v1/snapshots", "/v1/brokers")
_RESET: Final = "/v1/reset"
_STREAMS: Final = ("/v1/stream", "/v1/reports")
_WALL_FIELDS: Final = frozenset(("start_deliver_ms", "born_ms"))
"""Fields of JSON requests with times of the client's clock. Other fields have times of the broker's clock."""
_CONTENT_FIELDS: Final = frozenset(("key", "tag", "text"))
"""Fields of JSON requests that search for content of messages, or for an id."""
_QUEUE_FIELDS: Final = ("queueOffset", "commitOffset", "offset")
_LOG_FIELDS: Final = ("commitLogOffset", "commitOrRollbackOffset")

Progress = Callable[[str, int, int | None], object]


class _Asked:
    """A recorded request. Once it is sent, ``answer`` is the future of its answer."""

    def __init__(self, line: EventLine, target_ms: int, form: Form) -> None:
        self.line = line
        self.event = line.event
        self.target_ms = target_ms
        self.form = form
        self.answer: asyncio.Future[Form] | None = None
        self.failure = ""


class HttpTarget(NamedTuple):
    """The broker's HTTP port, with the headers that the JSON API needs in each request."""

    url: str
    headers: Mapping[str, str]


class RequestReplay:
    """A replay, which updates its ``findings`` as it runs."""

    def __init__(
        self,
        broker: Client,
        recording: RecordingReader,
        http: HttpTarget,
        progress: Progress,
    ) -> None:
        self.findings = Findings()
        self.pace = Pace(broker)
        self.values = ValueMap()
        self._broker = broker
        self._recording = recording
        self._http = http
        self._progress = progress
        self._doors: Mapping[str, Any] = {}
        self._run = 0
        self._answered: set[tuple[int, int]] = set()
        self._empty: set[tuple[int, int]] = set()
        self._queues: dict[tuple[int, int], list[int]] = {}
        self._ids: dict[tuple[int, int], list[str]] = {}
        self._asked: dict[int, _Asked] = {}
        self._unsent: dict[int, dict[int, _Asked]] = {}  # by connection and number
        self._connections: dict[tuple[int, str], PlayedConnection] = {}

    async def run(self, speed: float | None, *, hurries: bool) -> None:
        """Play all events. Raises InvalidArgumentError, RecordingError, BrokerError, UnreachableError."""
        await self.pace.plan(speed, hurries=hurries)
        self._doors = (await self._broker.info())["doors"]
        self._scan()
        await self.pace.begin()
        try:
            for line in events_in(self._recording):
                await self._play(line)
                self._progress("replaying", self._recording.whole, self._recording.size)
        finally:
            await self._close_all()
        if self._recording.is_cut:
            self.findings.notes["last line cut off, and left out"] += 1
        self.findings.notes["requests without a recorded answer"] += len(self._asked)

    async def _higher_offsets(self, recorded: Mapping[str, int]) -> dict[str, int]:
        """Return how much higher each queue's next offset is than at the start of the recording."""
        found = {
            f"{topic['name']}/{queue['queue_id']}": queue["max_offset"]
            for topic in await self._broker.topics()
            for queue in topic["queues"]
        }
        higher = {of: found.get(of, 0) - recorded.get(of, 0) for of in found.keys() | recorded.keys()}
        return {of: by for of, by in higher.items() if by}

    def _scan(self) -> None:
        """Read from the recorded answers what the replay needs to know before it sends the requests."""
        with RecordingReader(self._recording.path) as recording:
            running: dict[int, RequestEvent] = {}
            overtaken: set[int] = set()  # requests in progress when a poll found messages
            run = 0
            for _, event in events_in(recording):
                if event.kind == "start":
                    run += 1
                    running.clear()
                    overtaken.clear()
                elif event.kind == "request":
                    running[event.number] = event
                elif event.kind == "answer" and (asked := running.pop(event.number, None)) is not None:
                    key = (run, event.number)
                    self._answered.add(key)
                    if not _waits(asked):
                        if chooses_no_queue(asked):
                            self._queues[key] = queues_in(event.content)
                        if event.number in overtaken:
                            self._ids[key] = ids_of_sent(asked.content, event.content)
                    elif found_nothing(asked.door, event.content):
                        self._empty.add(key)
                    else:
                        overtaken |= running.keys()

    async def _play(self, line: EventLine) -> None:
        event = line.event
        target_ms = self._target_ms(event)
        match event.kind:
            case "start":
                if not self._run:
                    self.values.offsets = await self._higher_offsets(event.content.get("offsets", {}))
                self._run += 1
                await self._close_all()
                self.findings.notes["requests without a recorded answer"] += len(self._asked)
                self._asked.clear()
            case "request":
                await self._request(line, target_ms)
            case "answer":
                asked = self._asked.pop(event.number, None)
                if asked is not None:
                    await self._answer(asked, event, target_ms)
                    if asked.form.get("path") == _RESET:  # a reset may set the clock back
                        await self.pace.begin()
                        target_ms = self._target_ms(event)
                await self.pace.reach(target_ms)
            case "left":
                await self._leave(event.connection)
            case "lost":
                self.findings.notes["events missing in the recording"] += event.number
            case "full":
                self.findings.notes["end at the largest size of a recording"] += 1

    def _target_ms(self, event: RequestEvent) -> int:
        """Return the time of an event on this broker's clock, and shift recorded times accordingly."""
        target_ms = self.pace.target_ms(event.at_ms)
        self.values.shift_ms = target_ms - event.at_ms
        return target_ms

    async def _request(self, line: EventLine, target_ms: int) -> None:
        event = line.event
        form: Form = event.content
        reason = _unplayable(event)
        if reason:
            self.findings.notes[reason] += 1
            return
        key = (self._run, event.number)
        is_answered = key in self._answered
        if _waits(event):
            if is_answered:
                form = without_wait(event.door, form) if key in self._empty else form
                self._asked[event.number] = _Asked(line, target_ms, form)
            else:
                self.findings.notes["polls without a recorded answer"] += 1
            return
        if queues := self._queues.pop(key, []):
            form = with_queues(form, queues)
        asked = self._asked[event.number] = _Asked(line, target_ms, form)
        self._unsent.setdefault(event.connection, {})[event.number] = asked
        if not is_answered:
            await self._send_up_to(asked)

    async def _send_up_to(self, asked: _Asked) -> None:
        """Send a request after the earlier requests of its connection."""
        unsent = self._unsent[asked.event.connection]
        while asked.event.number in unsent:
            earliest = unsent.pop(next(iter(unsent)))
            await self.pace.reach(earliest.target_ms)
            await self._send(earliest)

    async def _send(self, asked: _Asked) -> None:
        try:
            asked.answer = await self._connection(asked.event).begin(asked.form, self._change_of(asked.event))
        except NoAnswerError as error:
            asked.failure = str(error)

    async def _answer(self, asked: _Asked, event: RequestEvent, target_ms: int) -> None:
        if _waits(asked.event):
            if (self._run, event.number) not in self._empty:
                await self._send_before(event)
            await self.pace.reach(target_ms)
            await self._send(asked)
        elif asked.event.number in self._unsent.get(asked.event.connection, {}):
            await self._send_up_to(asked)
        found = await self._answer_to(asked)
        if found is None:
            self.findings.add_answer(
                asked.line, [AnswerDifference("", f"{asked.failure}; recorded: an answer")]
            )
        else:
            self._compare(asked, event.content, found)

    async def _answer_to(self, asked: _Asked) -> Form | None:
        """Return the answer to a request, or None, with ``failure`` set if the request was sent."""
        if asked.answer is None:
            return None
        limit_s = PATIENCE_S + wait_ms(asked.event.door, asked.form) / 1_000
        try:
            async with asyncio.timeout(limit_s):
                return await asyncio.shield(asked.answer)
        except TimeoutError:
            asked.failure = f"no answer within {limit_s:g} s"
        except NoAnswerError as error:
            asked.failure = str(error)
        return None

    async def _send_before(self, poll: RequestEvent) -> None:
        """Send the requests that may have made messages available to a poll."""
        text = msgspec.json.encode(poll.content).decode()
        unsent = [each for of_one in self._unsent.values() for each in of_one.values()]
        for asked in sorted(unsent, key=lambda each: each.event.number):
            ids = self._ids.get((self._run, asked.event.number), ())
            if not ids or any(each in text for each in ids):
                if asked.event.number in self._unsent[asked.event.connection]:
                    await self._send_up_to(asked)
                await self._answer_to(asked)

    def _compare(self, asked: _Asked, recorded: Form, found: Form) -> None:
        recorded, found = document_in(recorded), document_in(found)
        if "omitted" in recorded or "omitted" in found or _tells_of_process(asked.event):
            recorded, found = (
                {name: each.get(name) for name in ("code", "status")} for each in (recorded, found)
            )
        owner = _queue_of(asked.event.content.get("ext", {}), recorded)
        self.findings.add_answer(asked.line, differences(recorded, found, self.values, owner))

    def _change_of(self, event: RequestEvent) -> Callable[[str, str], str]:
        """Return a function that translates the values of a request for this broker."""
        wall_shift_ms = wall_us() // US_PER_MS - (event.at_ms - event.ahead_ms)

        def change(text: str, field: str) -> str:
            if field in _CONTENT_FIELDS:
                return self.values.changed_id(text)
            is_of_broker = event.door == "json" and field not in _WALL_FIELDS
            return self.values.changed(text, self.values.shift_ms if is_of_broker else wall_shift_ms)

        return change

    def _connection(self, event: RequestEvent) -> PlayedConnection:
        key = (event.connection, event.door)
        found = self._connections.get(key)
        if found is None:
            found = self._connections[key] = self._make(event)
        return found

    def _make(self, event: RequestEvent) -> PlayedConnection:
        host = urlsplit(self._http.url).hostname or ""
        if event.door == "grpc":
            if "grpc" not in self._doors:
                raise RecordingError("the broker does not serve gRPC, which the recording needs")
            from mocketmq.recording.requests.played_grpc import PlayedGrpc  # noqa: PLC0415 - imports slowly

            return PlayedGrpc(host, self._doors["grpc"]["port"])
        if event.door != "remoting":
            return PlayedHttp(self._http.url, self._http.headers if event.door == "json" else {})
        ports = [
            self._doors.get("broker"),
            *(each["broker"] for each in self._doors.get("brokers", {}).values()),
        ]
        index = min(event.broker + bool(event.broker), len(ports) - 1)
        port = ports[index]
        if port is None:
            raise RecordingError(
                "the broker does not serve remoting, which the recording needs; start it without"
                " --no-remoting"
            )
        return PlayedRemoting(host, port["port"], partial(_with_offsets, self.values))

    async def _leave(self, connection: int) -> None:
        self._unsent.pop(connection, None)
        for key in [key for key in self._connections if key[0] == connection]:
            await self._connections.pop(key).close()

    async def _close_all(self) -> None:
        for connection in list(self._connections.values()):
            await connection.close()
        self._connections.clear()
        self._unsent.clear()


def _waits(event: RequestEvent) -> bool:
    return wait_ms(event.door, event.content) > 0


def _unplayable(event: RequestEvent) -> str:
    """Return the reason why a request cannot be replayed; empty if it can."""
    if "omitted" in event.content:
        return "requests with a body that is not recorded"
    if event.door == "json" and event.content["path"].startswith(_STREAMS):
        return "streams and reports, which are not replayed"
    return ""


def _tells_of_process(event: RequestEvent) -> bool:
    if event.door == "remoting":
        return event.content["code"] in _OF_PROCESS
    return event.door == "json" and str(event.content["path"]).startswith(_PATHS_OF_PROCESS)


def _queue_of(ext: Mapping[str, str], recorded: Form) -> str:
    """Return the queue of a request or its answer, as ``topic/queue``; empty if it has none."""
    topic = ext.get("topic", ext.get("b"))
    queue = recorded.get("ext", {}).get("queueId", ext.get("queueId", ext.get("e")))
    return f"{topic}/{queue}" if topic and queue is not None else ""


def _with_offsets(values: ValueMap, ext: dict[str, str]) -> dict[str, str]:
    owner = _queue_of(ext, {})
    for name in _QUEUE_FIELDS:
        if owner and name in ext:
            ext[name] = values.moved_offset(owner, ext[name])
    for name in _LOG_FIELDS:
        if name in ext:
            ext[name] = values.moved_place(ext[name])
    return ext
