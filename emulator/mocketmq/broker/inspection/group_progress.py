"""The progress of groups in topics: offsets, lag and times, for monitoring.

Times are store times in emulated milliseconds. Sources: AdminBrokerProcessor of 4.9.8;
docs/protocol/remoting.md §2.10.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup, ConsumingGroups
from mocketmq.broker.consuming.group_queue import GroupQueue
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.registry.statistics import MINUTE_US
from mocketmq.broker.registry.topic import Topic
from mocketmq.clock import US_PER_MS
from mocketmq.message.names import RETRY_PREFIX, retry_topic
from mocketmq.schedule.held_deliveries import HeldDeliveries
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.store.messages import store_times
from mocketmq.store.queue import Queue
from mocketmq.store.store import Store

_RETRYING = """
SELECT real_queue_key, count(*) FROM messages m
WHERE kind = 'retried' AND queue_key = ? AND queue_offset >= ?
AND NOT EXISTS (SELECT 1 FROM interventions i WHERE i.parked_offset = m.log_offset)
GROUP BY real_queue_key"""
_OLDEST = "SELECT log_offset, store_us FROM messages ORDER BY log_offset LIMIT 1"


class QueueProgress(NamedTuple):
    """A group's progress in a queue: its committed offset, and the first offset not delivered to it.

    ``last_ms`` is the time of the last message that the group has settled, 0 if there is none.
    """

    queue: Queue
    committed_offset: int
    given_offset: int
    last_ms: int

    @property
    def offset_diff(self) -> int:
        """RocketMQ's ``diff``, which unlike ``GroupQueue.lag`` counts messages that retention removed."""
        return self.queue.next_offset - max(self.committed_offset, 0)

    @property
    def inflight_diff(self) -> int:
        """RocketMQ's ``inflight``, which counts all messages from the committed offset on."""
        return self.given_offset - self.committed_offset


class TopicProgress(NamedTuple):
    """A group's progress in a topic, and its rate of received messages in the last minute."""

    topic: Topic
    queues: Sequence[QueueProgress]
    given_per_second: float


class QueueTimes(NamedTuple):
    """The times of a queue's oldest and newest message, and of the last one settled by a group; or -1.

    ``delay_ms`` is the age of the first message that the group has not settled, 0 if there is none.
    """

    queue: Queue
    min_ms: int
    max_ms: int
    consumed_ms: int
    delay_ms: int


@dataclass(eq=False, repr=False)
class GroupProgress:
    """Reads progress from memory, and times from the store."""

    _store: Store
    _registry: Registry
    _groups: ConsumingGroups
    _levels: LevelQueues
    _held: HeldDeliveries

    def topics_of(self, group_name: str) -> list[str]:
        """The topics that the group has consumed. The group may be deleted, if its offsets are kept."""
        return sorted({queue.topic for queue in self._groups.offsets_of(group_name)})

    def groups_of(self, topic_name: str) -> list[str]:
        """The groups that have consumed the topic, or have members that subscribe to it."""
        consumed = {
            name
            for name in self._groups.with_offsets()
            if any(queue.topic == topic_name for queue in self._groups.offsets_of(name))
        }
        return sorted(consumed | set(self._registry.clients.subscribers(topic_name)))

    def queues_of(self, group: ConsumingGroup) -> list[GroupQueue]:
        """The group's position in each queue that it has consumed, and in each of its retry queues."""
        found = group.uncommitted | group.queues
        retries = self._registry.topics.find_topic(retry_topic(group.name))
        for queue in retries.queues if retries else ():
            found.setdefault(queue, GroupQueue(group, queue, queue.min_offset))
        return sorted(
            found.values(), key=lambda one: (one.queue.topic, one.queue.lite_topic or "", one.queue.queue_id)
        )

    async def waiting_retries(self) -> Counter[tuple[str, int]]:
        """Count messages that were given back and wait for their delay, by retry topic and queue id.

        RocketMQ's lag does not include them, because they are not in the retry topic yet.
        """
        found: Counter[tuple[str, int]] = Counter()
        for level in self._levels.levels:
            if level.pending:
                rows = await self._store.database.rows(_RETRYING, (level.queue.key, level.next_offset))
                found.update({self._registry.topics.queue(key).place: count for key, count in rows})
        for key, count in await self._held.by_queue():
            place = self._registry.topics.queue(key).place
            if place[0].startswith(RETRY_PREFIX):
                found[place] += count
        return found

    async def of_topic(self, topic_name: str, *, is_of_5: bool) -> list[tuple[Queue, int]]:
        """The topic's queues, each with the store time of its newest message, 0 if it is empty.

        RocketMQ 4 omits readable queues that are not writable. Raises TopicNotFoundError.
        """
        topic = self._registry.topics.get(topic_name)
        queues = topic.configured(read=is_of_5, write=True)
        times = await self._times((queue, queue.next_offset - 1) for queue in queues)
        return [(queue, times.get((queue.key, queue.next_offset - 1), 0)) for queue in queues]

    async def of_group(
        self, group_name: str, topic_name: str | None = None, *, is_of_5: bool
    ) -> list[TopicProgress]:
        """The group's progress in a topic, or in all topics that it has consumed.

        As in RocketMQ, if the group has connected members, topics that they do not subscribe to are omitted.
        In RocketMQ 5, a pull with its own filter counts as a subscription.
        """
        names = self.topics_of(group_name) if topic_name is None else [topic_name]
        live = self._registry.clients.find_connected_group(group_name)
        group = self._groups.find_group(group_name)
        wanted = set(live.subscriptions) if live else set()
        if wanted and is_of_5:
            wanted |= self._groups.filtered_by_pull(group_name)
        topics = [
            topic
            for name in names
            if (topic := self._registry.topics.find_topic(name)) and (not wanted or topic.name in wanted)
        ]
        return [await self._in_topic(group_name, group, topic) for topic in topics]

    async def _in_topic(self, name: str, group: ConsumingGroup | None, topic: Topic) -> TopicProgress:
        found, offsets = [], self._groups.offsets_of(name)
        # As in RocketMQ, -1 tells tools to look for the group's offset in an older queue of a static topic.
        none = -1 if topic.config.mappings else 0
        for queue in topic.configured(read=True, write=False):
            group_queue = group.queues.get(queue) if group else None
            committed = offsets.get(queue, none)
            given = min(group_queue.given_offset, queue.next_offset) if group_queue else committed
            found.append(QueueProgress(queue, committed, max(committed, given), 0))
        times = await self._times((one.queue, one.committed_offset - 1) for one in found)
        queues = [
            one._replace(last_ms=times.get((one.queue.key, one.committed_offset - 1), 0)) for one in found
        ]
        meter = self._registry.statistics.groups.get((topic.name, name))
        window = self._registry.statistics.window(meter, MINUTE_US) if meter else None
        return TopicProgress(topic, queues, window.per_second(window.added.messages) if window else 0.0)

    async def time_spans(self, group_name: str, topic_name: str) -> list[QueueTimes]:
        """The times of the topic's writable queues. Raises TopicNotFoundError."""
        topic, offsets = self._registry.topics.get(topic_name), self._groups.offsets_of(group_name)
        now_ms = self._store.clock.now_us() // US_PER_MS
        spans = []
        for queue in topic.configured(read=False, write=True):
            committed = offsets.get(queue, 0)
            oldest, newest = queue.min_offset, queue.next_offset - 1
            wanted = (oldest, newest, committed - 1, committed)
            times = await self._times((queue, offset) for offset in wanted)
            oldest_ms, newest_ms, last_ms, next_ms = (times.get((queue.key, each), -1) for each in wanted)
            delay_ms = now_ms - next_ms if next_ms >= 0 else 0
            spans.append(
                QueueTimes(queue, oldest_ms, newest_ms, last_ms if committed > 0 else oldest_ms, delay_ms)
            )
        return spans

    def corrections(self, topic_name: str, group_name: str, others: Collection[str]) -> dict[int, int | None]:
        """The smallest committed offset of any group except the ``others``, by queue id of the topic.

        The value is None for a queue in which the group ``group_name`` itself is behind that offset.
        """
        least: dict[int, int] = {}
        for group in self._groups:
            for queue, group_queue in group.queues.items():
                offset = group_queue.committed_offset
                if queue.topic == topic_name and group.name not in others and offset >= queue.min_offset:
                    least[queue.queue_id] = min(least.get(queue.queue_id, offset), offset)
        own = self._groups.find_group(group_name)
        behind = {
            queue.queue_id
            for queue, group_queue in (own.queues.items() if own else ())
            if queue.topic == topic_name and group_queue.committed_offset < least.get(queue.queue_id, 0)
        }
        return {queue_id: None if queue_id in behind else offset for queue_id, offset in least.items()}

    async def oldest(self) -> tuple[int, int] | None:
        """The log offset and the time of the oldest message; None without messages."""
        rows = await self._store.database.rows(_OLDEST)
        return (rows[0][0], rows[0][1] // US_PER_MS) if rows else None

    async def _times(self, places: Iterable[tuple[Queue, int]]) -> Mapping[tuple[int, int], int]:
        wanted = [(queue.key, offset) for queue, offset in places if queue.min_offset <= offset]
        found = await store_times(self._store.database, wanted)
        return {place: store_us // US_PER_MS for place, store_us in found.items()}
