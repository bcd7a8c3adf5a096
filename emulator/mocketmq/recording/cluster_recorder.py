"""Records messages of a real RocketMQ's topics, by reads that change nothing there.

A broker stores a delayed message twice: in a delay queue when it is sent, and without the delay in its topic
when it is due. The recording has the first copy, and leaves out the second, which has the same unique key.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from mocketmq.calling.call import OPEN_ACCESS, ClusterAccess, ClusterError
from mocketmq.calling.connection import ClientConnection
from mocketmq.calling.name_servers import BrokerQueues, NameServers
from mocketmq.clock import US_PER_MS, US_PER_S, steady_us, wall_us
from mocketmq.errors import InvalidArgumentError
from mocketmq.message.properties import REAL_QID, REAL_TOPIC, TIMER_DEL_UNIQKEY, UNIQ_KEY
from mocketmq.recording.masks import Masks
from mocketmq.recording.parked_messages import DELAY_TOPICS, ParkedMessages
from mocketmq.recording.queue_reader import QueueReader, ReadMessage, merged
from mocketmq.recording.recorded_message import INFLATED, UNPLAYED, AskedDelay, Sending, asked_delay, recorded
from mocketmq.recording.recording import (
    VERSION,
    Origin,
    RecordedMessage,
    RecordingError,
    RecordingHeader,
    RecordingReader,
    RecordingWriter,
)
from mocketmq.relay.rocketmq.brokers import RemoteBroker, RemoteBrokers
from mocketmq.relay.rocketmq.queue import RemoteQueue
from mocketmq.remoting.wire.record import decode_properties

_NO_GROUP: Final = ""
_ROLLED: Final = "TIMER_ROLL_TIMES"
_WRITTEN_TOGETHER: Final = 256
_BYTES_TOGETHER: Final = 1 << 20
_POLL_S: Final = 1.0
_INFLATED_MIB: Final = INFLATED >> 20
_SLACK_MS: Final = 1_000
"""Time within which a broker makes a stored message visible to readers."""

Progress = Callable[[str, int, int | None], object]
"""Called with the current activity, the number of messages read, and the total."""


class Begin(NamedTuple):
    """Where a recording begins: at a time, at an offset of each queue, or at the oldest messages."""

    from_ms: int | None = None
    offset: int | None = None


class RecordingPlan(NamedTuple):
    """What to record. Without ``until_ms``, all messages that are stored at the start."""

    topics: Sequence[str]
    begin: Begin
    until_ms: int | None
    limit: int | None
    rate: int


class RecordingSummary:
    """Counts of a recording; ``counts`` has the numbers of missing and changed messages, by description."""

    def __init__(self) -> None:
        self.is_begun = False
        self.messages = 0
        self.delayed = 0
        self.counts: Counter[str] = Counter()


class ClusterRecorder:
    """Records into a file. Raises ClusterError, RecordingError; the file then has everything read before."""

    def __init__(
        self,
        name_servers: str,
        plan: RecordingPlan,
        masks: Masks,
        access: ClusterAccess = OPEN_ACCESS,
    ) -> None:
        connect = partial(ClientConnection, access=access)
        self.summary = RecordingSummary()
        self._source = f"rocketmq {name_servers}"
        self._plan = plan
        self._masks = masks
        self._begin = plan.begin
        self._name_servers = NameServers(name_servers, connect, lambda _: None)
        self._brokers = RemoteBrokers(connect)
        self._bases: dict[tuple[str, str], int] = {}  # number of the first queue of a topic on a broker
        self._sources: list[QueueReader] = []
        self._parked = ParkedMessages()
        self._read = 0
        self._paced_us = 0

    async def run(self, path: Path, *, resumes: bool, progress: Progress) -> None:
        """Record until the plan is fulfilled. After a cancellation, the file has everything read before."""
        try:
            routes = {topic: await self._route(topic) for topic in self._plan.topics}
            writer, read = self._open(path, self._header(routes), resumes=resumes)
            self.summary.is_begun = True
            try:
                await self._find_queues(routes, read)
                await self._record(writer, progress)
            except ClusterError as error:
                raise type(error)(
                    f"{error}. {path} contains what was read so far; --resume continues it"
                ) from error
            finally:
                writer.close()
        except (LookupError, ValueError) as error:
            raise ClusterError(f"an answer of the cluster cannot be read: {error!r}") from error
        finally:
            await self._brokers.close()
            await self._name_servers.close()

    # The file

    def _header(self, routes: dict[str, list[BrokerQueues]]) -> RecordingHeader:
        queues = {}
        for topic, brokers in routes.items():
            total = 0
            for each in brokers:
                self._bases[topic, each.broker] = total
                total += each.readable
            queues[topic] = total
        return RecordingHeader(
            recording=VERSION,
            source=self._source,
            queues=queues,
            masks=self._masks.texts,
            key_check=self._masks.key_check,
            from_ms=self._begin.from_ms,
            from_offset=self._begin.offset,
        )

    def _open(
        self, path: Path, header: RecordingHeader, *, resumes: bool
    ) -> tuple[RecordingWriter, dict[tuple[str, str, int], int]]:
        """Open the file. Return the writer and the next offsets, by broker, topic and queue."""
        if not resumes:
            return RecordingWriter.create(path, header), {}
        read: dict[tuple[str, str, int], int] = {}
        found = RecordingReader(path, continues=True)
        try:
            for name in ("queues", "masks", "key_check"):
                if getattr(found.header, name) != getattr(header, name):
                    raise RecordingError(
                        f"{path} was recorded with other {_HEADINGS[name]}; allowed: the same as before"
                    )
            first = None
            for _, message in found:
                if (origin := message.origin) is None:
                    continue
                first = first or message.sent_ms
                read[origin.broker, origin.topic, origin.queue_id] = origin.offset + 1
                self._parked.reread(message)
            self._parked.begin()
            self._begin = Begin(found.header.from_ms or first, found.header.from_offset)
            return RecordingWriter.behind(found, found.whole), read
        except InvalidArgumentError as error:
            raise RecordingError(f"{path}: {error}") from None
        finally:
            found.close()

    # Queues

    async def _route(self, topic: str) -> list[BrokerQueues]:
        route = await self._name_servers.route(topic)
        if route is None:
            raise ClusterError(f"topic {topic} does not exist")
        for broker, queues in self._name_servers.without_master.get(topic, {}).items():
            self.summary.counts[f"queues of {broker} left out, as it has no master"] += queues
        return sorted((each for each in route if each.readable), key=lambda each: each.broker)

    async def _find_queues(
        self, routes: dict[str, list[BrokerQueues]], read: dict[tuple[str, str, int], int]
    ) -> None:
        brokers: dict[str, RemoteBroker] = {}
        for topic, route in routes.items():
            for each in route:
                broker = brokers[each.broker] = self._brokers.at(each.address, each.broker)
                for queue_id in range(each.readable):
                    queue = RemoteQueue(broker, _NO_GROUP, topic, queue_id)
                    start = read.get((each.broker, topic, queue_id))
                    self._sources.append(
                        QueueReader(queue, await self._start_of(queue) if start is None else start)
                    )
        from_ms = await self._first_ms()
        for topic in DELAY_TOPICS:
            for each in await self._name_servers.route(topic) or ():
                if each.broker not in brokers:
                    continue
                for queue_id in range(each.readable):
                    queue = RemoteQueue(brokers[each.broker], _NO_GROUP, topic, queue_id)
                    start = read.get((each.broker, topic, queue_id))
                    if start is None:
                        start = await (queue.oldest() if from_ms is None else queue.offset_at(from_ms))
                    self._sources.append(QueueReader(queue, start))

    async def _start_of(self, queue: RemoteQueue) -> int:
        if self._begin.offset is not None:
            return max(self._begin.offset, await queue.oldest())
        if self._begin.from_ms is not None:
            return await queue.offset_at(self._begin.from_ms)
        return await queue.oldest()

    async def _first_ms(self) -> int | None:
        """Return the time from which to read delay queues; if offsets are given, the first message's time."""
        if self._begin.offset is None or self._begin.from_ms is not None:
            return self._begin.from_ms
        firsts = []
        for source in self._sources:
            await source.look()
            if (record := await source.head(self._pace)) is not None:
                firsts.append(record.store_ms)
        return min(firsts, default=wall_us() // US_PER_MS)

    # Reading

    async def _record(self, writer: RecordingWriter, progress: Progress) -> None:
        until_ms, batch = self._plan.until_ms, _Batch(writer, self.summary)
        is_last = False
        try:
            while not is_last:
                is_last = until_ms is None or wall_us() // US_PER_MS > until_ms + _SLACK_MS
                for source in self._sources:
                    await source.look()
                for source in self._sources:
                    await source.look_again()
                is_last |= await self._read_known(batch, progress)
                batch.write()
                if not is_last:
                    await asyncio.sleep(_POLL_S)
        finally:
            batch.write()
            self.summary.counts += Counter(
                {
                    "messages that the broker deleted before they were read": sum(
                        source.lost for source in self._sources
                    ),
                    "non-JSON bodies masked entirely": self._masks.broken,
                }
            )

    async def _read_known(self, batch: "_Batch", progress: Progress) -> bool:
        """Record up to the goals of the queues, and return whether the plan is fulfilled."""
        total = self._read + sum(source.left for source in self._sources)
        async with aclosing(merged(self._sources, self._pace)) as messages:
            async for found in messages:
                if self._plan.until_ms is not None and found.record.store_ms >= self._plan.until_ms:
                    return True
                self._read += 1
                progress("recording", self._read, total)
                if (message := self._message(found)) is not None:
                    batch.add(message)
                    if self.summary.messages == self._plan.limit:
                        return True
        return False

    def _message(self, found: ReadMessage) -> RecordedMessage | None:
        """Make the line of a message; None if the message is left out."""
        source, record = found
        properties = decode_properties(record.properties)
        key = properties.get(UNIQ_KEY, "")
        broker, topic = source.queue.broker.name, source.queue.topic
        if self._begin.from_ms is not None and record.store_ms < self._begin.from_ms:
            return None
        counts, asked = self.summary.counts, AskedDelay()
        queue_id = record.queue_id
        if topic in DELAY_TOPICS:
            topic = properties.get(REAL_TOPIC, "")
            if (topic, broker) not in self._bases or _ROLLED in properties:
                return None
            if TIMER_DEL_UNIQKEY in properties:
                counts["recalls of delayed messages, which a replay does not repeat"] += 1
                return None
            try:
                asked, queue_id = asked_delay(properties), int(properties[REAL_QID])
            except (LookupError, ValueError):
                counts["delayed messages with damaged properties"] += 1
                return None
            self.summary.delayed += 1
            if key:
                self._parked.park(topic, key)
        elif self._parked.deliver(topic, key) or record.store_ms < self._parked.passed_ms:
            return None
        if any(name in properties for name in UNPLAYED):
            counts["messages whose priority or lite topic is left out"] += 1
        message = recorded(
            Sending(
                record.store_ms,
                record.born_ms,
                topic,
                self._bases[topic, broker] + queue_id,
                record.flag,
                record.sys_flag,
            ),
            record.body,
            properties,
            asked,
            self._masks,
            Origin(broker, source.queue.topic, source.queue.queue_id, record.queue_offset),
        )
        if message.compression == "zlib":
            counts[
                f"zlib bodies that stay compressed, as they are damaged or larger than {_INFLATED_MIB} MiB"
            ] += 1
        elif message.compression is not None:
            counts[f"bodies that stay compressed with {message.compression}, which a replay refuses"] += 1
        return message

    async def _pace(self) -> None:
        """Wait until the next message may be read, so that at most ``rate`` messages are read per second."""
        now_us = steady_us()
        at_us = max(self._paced_us, now_us)
        self._paced_us = at_us + US_PER_S // self._plan.rate
        await asyncio.sleep((at_us - now_us) / US_PER_S)


_HEADINGS: Final = {"queues": "topics or queues", "masks": "masks", "key_check": "key of the masks"}


class _Batch:
    """A batch of messages that are written together."""

    def __init__(self, writer: RecordingWriter, summary: RecordingSummary) -> None:
        self._writer = writer
        self._summary = summary
        self._messages: list[RecordedMessage] = []
        self._bytes = 0

    def add(self, message: RecordedMessage) -> None:
        self._messages.append(message)
        self._summary.messages += 1
        self._bytes += len(message.body or message.body_base64 or "")
        if len(self._messages) >= _WRITTEN_TOGETHER or self._bytes >= _BYTES_TOGETHER:
            self.write()

    def write(self) -> None:
        messages, self._messages, self._bytes = self._messages, [], 0
        self._writer.write(messages)
