"""Replays a recording: sends its messages to a broker with their spacing, on the broker's clock.

Each message has a target time: as long after the start of the replay as the message was sent after the first
message. Before the replay sends a message, it moves the clock to the target (a manual clock by the same
request) or waits until the clock reaches the target. Messages with the same target are sent topic by topic,
with one request for each topic, so each queue keeps its order.
"""

import asyncio
import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import groupby
from typing import Final

from mocketmq.client.answer import BrokerError, JsonObject
from mocketmq.client.api_calls import given
from mocketmq.client.asynchronous import Client
from mocketmq.errors import EmulatorError, IllegalMessageError
from mocketmq.instant import parse_instant_ms
from mocketmq.message.names import is_system_topic
from mocketmq.recording.pace import Pace
from mocketmq.recording.recorded_message import LARGEST_INFLATED, inflated
from mocketmq.recording.recording import Line, RecordedMessage, RecordingError, RecordingReader

_MOST: Final = 500
"""Maximum number of messages in a request."""
_LONGEST_STEP_MS: Final = 365 * 86_400_000
"""Longest move of the clock that is part of a send."""
_MOST_BYTES: Final = 1 << 20
"""Total size of bodies above which a request gets no further message."""

Progress = Callable[[str, int, int | None], object]
"""Called with the current activity, the number of bytes read, and the total."""
Refused = Callable[[str], object]
"""Called with a sentence about each message that the broker refuses."""


@dataclass(eq=False, repr=False)
class Replaying:
    """A replay. ``topics`` maps topics of the recording to other names.

    Attributes are counts so far, and times in milliseconds of the broker's clock. ``skipped`` counts messages
    of system topics, to which clients cannot send. ``pending`` is None while it is unknown.
    """

    _broker: Client
    _recording: RecordingReader
    _topics: Mapping[str, str]
    _refuse: Refused
    _progress: Progress

    def __post_init__(self) -> None:
        self.sent = self.delayed = self.refused = self.skipped = 0
        self.pending: int | None = None
        self._pace = Pace(self._broker)
        self._queues: dict[str, Sequence[int]] = {}  # queue ids of the broker's topics
        self._unreadable: RecordingError | None = None
        self._last_due_ms = 0

    @property
    def began_ms(self) -> int:
        """The broker's time when the replay began; 0 before that."""
        return self._pace.began_ms

    @property
    def now_ms(self) -> int:
        """The broker's time when the replay last read it."""
        return self._pace.now_ms

    async def run(self, speed: float | None, *, hurries: bool) -> None:
        """Send all messages; then move the clock, if the replay moves it, until all of them are delivered.

        ``speed`` is the number of recorded seconds to play per real second; the default is the rate of the
        clock. The replay does not wait if it ``hurries``, or if the clock is manual and no speed is given.
        Raises InvalidArgumentError, RecordingError, BrokerError, UnreachableError.
        """
        await self._pace.plan(speed, hurries=hurries)
        for name, queues in self._recording.header.queues.items():
            topic = self._topics.get(name, name)
            if not is_system_topic(topic):
                await self._prepare(topic, queues)
        await self._pace.begin()
        size = self._recording.size
        for target_ms, lines in self._turns():
            if not self._pace.steps:
                await self._pace.reach(target_ms)
            await self._send_all(lines, target_ms)
            self._progress("replaying", self._recording.whole, size)
        if self._unreadable is not None:
            raise self._unreadable
        if self._pace.moves and self._last_due_ms > self.now_ms:
            await self._pace.reach(self._last_due_ms)
        await self.look()

    async def look(self) -> None:
        """Read the broker's time and its number of pending messages. Raises BrokerError, UnreachableError."""
        clock = await self._broker.clock()
        self._pace.now_ms, self.pending = clock["now_ms"], clock["pending"]

    async def _prepare(self, topic: str, queues: int) -> None:
        """Create the topic with the queues of the recording, unless it exists."""
        try:
            found = await self._broker.topic(topic)
        except BrokerError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            found = await self._broker.create_topic(topic, queues=max(queues, 1))
        brokers = len(found["queues"]) // max(found["read_queues"], found["write_queues"])
        queue_ids = [queue["queue_id"] for queue in found["queues"]]
        is_everywhere = queue_ids == list(range(len(queue_ids)))
        self._queues[topic] = range(found["write_queues"] * max(brokers, 1)) if is_everywhere else queue_ids

    def _turns(self) -> Iterator[tuple[int, list[Line]]]:
        """Yield the messages in groups with the same target time."""
        for at_ms, together in groupby(
            self._lines(), lambda line: self._pace.target_ms(line.message.sent_ms)
        ):
            lines, size = [], 0
            for number, message in together:
                plain = inflated(message)
                lines.append(Line(number, plain))
                size += len(plain.body or plain.body_base64 or "")
                if len(lines) >= _MOST or size >= _MOST_BYTES:
                    yield at_ms, lines
                    lines, size = [], 0
            if lines:
                yield at_ms, lines

    def _lines(self) -> Iterator[Line]:
        """Yield the lines before the first unreadable line, so that their messages are still sent."""
        try:
            yield from self._recording
        except RecordingError as error:
            self._unreadable = error

    async def _send_all(self, lines: list[Line], target_ms: int) -> None:
        by_topic: dict[str, list[tuple[Line, JsonObject]]] = {}
        for line in lines:
            topic = self._topics.get(line.message.topic, line.message.topic)
            if is_system_topic(topic):
                self.skipped += 1
                continue
            try:
                if topic not in self._queues:
                    await self._prepare(topic, line.message.queues or 1 + (line.message.queue_id or 0))
                message = _outgoing(line.message, target_ms, self._queues[topic])
            except EmulatorError as error:
                self._refuse_line(line, error)
            else:
                by_topic.setdefault(topic, []).append((line, message))
        for topic, messages in by_topic.items():
            sending = asyncio.ensure_future(self._send_topic(topic, messages, target_ms))
            try:
                await asyncio.shield(sending)
            except asyncio.CancelledError:
                await sending  # count these messages, because the broker may have stored them
                raise

    async def _send_topic(self, topic: str, messages: list[tuple[Line, JsonObject]], target_ms: int) -> None:
        """Send messages at their target in one request or, if the broker refuses one of them, one by one."""
        step_ms = max(target_ms - self.now_ms, 0) if self._pace.steps else 0
        if step_ms > _LONGEST_STEP_MS:
            await self._pace.reach(target_ms)
            step_ms = 0
        outgoing = [message for _, message in messages]
        try:
            if step_ms:  # the request that sends the messages also moves the clock
                answers = await self._broker.send_batch(topic, outgoing, advance=f"{step_ms}ms")
                self._pace.now_ms = target_ms
            elif len(messages) == 1:
                answers = [await self._broker.send(topic, **outgoing[0])]
            else:
                answers = await self._broker.send_batch(topic, outgoing)
        except BrokerError as error:
            if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR or error.status in _DENIED:
                raise
            if len(messages) == 1 and not step_ms:
                self._refuse_line(messages[0][0], error)
                return
            await self._pace.reach(target_ms)
            for one in messages:
                await self._send_topic(topic, [one], target_ms)
            return
        self.sent += len(answers)
        dues = [answer["due_ms"] for answer in answers if answer["due_ms"] is not None]
        self.delayed += len(dues)
        self._last_due_ms = max((self._last_due_ms, *dues))

    def _refuse_line(self, line: Line, error: EmulatorError) -> None:
        self.refused += 1
        self._refuse(f"line {line.number}: {error}")


_DENIED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


def _outgoing(message: RecordedMessage, target_ms: int, queue_ids: Sequence[int]) -> JsonObject:
    """Convert the message for the JSON API. Raises IllegalMessageError, InvalidArgumentError."""
    queue_id = message.queue_id
    if queue_id is not None and queue_id not in queue_ids:
        queue_id = queue_ids[queue_id % len(queue_ids)]
    if message.compression is not None:
        raise IllegalMessageError(
            "compression",
            f"the body is compressed with {message.compression}; allowed: none, or intact zlib of at most"
            f" {LARGEST_INFLATED >> 20} MiB",
        )
    sent_ms = message.sent_ms
    delay_ms = message.delay_ms
    if message.deliver_at is not None:
        delay_ms = max(parse_instant_ms(message.deliver_at, "deliver_at") - sent_ms, 0)
    born_ms = None if message.born_ms is None else max(target_ms - sent_ms + message.born_ms, 0)
    packed = message.body_base64
    return given(
        body=message.body,
        body_base64=None if packed is None else base64.b64encode(packed).decode(),
        tag=message.tag,
        keys=message.keys or None,
        properties=message.properties or None,
        delay_level=message.delay_level or None,
        delay_ms=delay_ms or None,
        queue_id=queue_id,
        message_id=message.message_id,
        born_ms=born_ms,
        flag=message.flag or None,
    )
