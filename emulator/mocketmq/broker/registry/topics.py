"""Topics and their queues: look-up, creation, changes, deletion."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, reduce
from operator import or_
from types import MappingProxyType

import msgspec

from mocketmq.broker.registry.brokers import ClusterBrokers, RegisteredBroker
from mocketmq.broker.registry.lite_topics import LiteTopics
from mocketmq.broker.registry.name_server import DataVersion
from mocketmq.broker.registry.static_topic import QueueMapping, at_brokers
from mocketmq.broker.registry.topic import PERM_INHERIT, PERM_READ, PERM_WRITE, Topic
from mocketmq.broker.registry.topic_config import ABSENT, PLAIN, QueuesAtBroker, TopicConfig
from mocketmq.errors import InvalidArgumentError, NoPermissionError, QueueNotFoundError, TopicNotFoundError
from mocketmq.message.broker_share import is_shared_out
from mocketmq.message.names import (
    DLQ_PREFIX,
    MAX_QUEUES,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    check_topic_name,
    is_system_topic,
)
from mocketmq.store.batch import Batch
from mocketmq.store.queue import LiteQueue, Queue, load_queues
from mocketmq.store.store import Store

_SAVE_TOPIC = (
    "INSERT INTO topics VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET"
    " read_queues = excluded.read_queues, write_queues = excluded.write_queues, perm = excluded.perm,"
    " config = excluded.config"
)
_DELETE_TOPIC = "DELETE FROM topics WHERE name = ?"
_SAVE_QUEUE = "INSERT INTO queues VALUES (?, ?, ?, 0, 0, 0, NULL)"

_write, _read = msgspec.json.Encoder().encode, msgspec.json.Decoder(TopicConfig).decode


class Topics:
    """Every topic. Reads come from memory. Changes are visible once committed, and answered once durable.

    With ``takes_mixed``, administrators may set the attribute ``message.type`` to ``MIXED``.
    ``static_topics`` has the static topics by name; it always stays the same object. ``creating`` is held
    while a topic is created or changed.
    """

    def __init__(
        self, store: Store, brokers: ClusterBrokers, *, takes_mixed: bool, on_deleted: Callable[[str], None]
    ) -> None:
        self.brokers = brokers
        self.takes_mixed = takes_mixed
        self.version = DataVersion()
        self._database = store.database
        self._writer = store.writer
        self._on_deleted = on_deleted
        self._topics: dict[str, Topic] = {}
        self.static_topics: dict[str, Topic] = {}
        self._queues: dict[int, Queue] = {}  # by key, including those of deleted topics
        self._last_key = 0
        self.lites = LiteTopics(self._queues, self._take_key)
        self._deleted: dict[str, list[Queue]] = {}  # by topic
        self._closing: set[str] = set()
        self.creating = asyncio.Lock()

    async def load(self, known: Mapping[tuple[str, int], Queue] = MappingProxyType({})) -> None:
        """Read every topic and queue from the store. ``known`` has queue objects to reuse, by place."""
        for name, read_queues, write_queues, perm, text in await self._database.rows("SELECT * FROM topics"):
            config, brokers = _read(text), self._brokers_of(name)
            if config.at and len(config.at) != brokers:  # only in a store that was edited
                config = msgspec.structs.replace(config, at=(), mappings=())
            if config.mappings:
                mappings = at_brokers(config.mappings, self.brokers.names)
                config = msgspec.structs.replace(config, mappings=mappings)
            self._set(Topic(name, read_queues, write_queues, perm, [], config, brokers))
        queues = await load_queues(self._database)
        self._last_key = max((queue.key for queue in queues), default=0)
        self.lites.load(queue for queue in queues if isinstance(queue, LiteQueue))
        for queue in queues:
            if isinstance(queue, LiteQueue):
                continue
            if (again := known.get(queue.place)) is not None:
                again.become(queue)
                queue = again  # noqa: PLW2901
            self._queues[queue.key] = queue
            topic = self._topics.get(queue.topic)
            siblings = topic.queues if topic else self._deleted.setdefault(queue.topic, [])
            siblings.append(queue)

    def _set(self, topic: Topic) -> None:
        self._topics[topic.name] = topic
        if topic.config.mappings:
            self.static_topics[topic.name] = topic

    def _brokers_of(self, name: str) -> int:
        """The number of brokers that have queues of the topic."""
        return len(self.brokers) if is_shared_out(name) else 1

    async def reload(self) -> None:
        """Read everything again from a restored store. Queues that still exist stay the same objects.

        Requests in progress may refer to the other queues, which are marked, because the store has no row of
        them any more. Keys are never reused, so that a late write for them cannot hit another queue.
        """
        former = [*self._queues.values()]
        known = {queue.place: queue for queue in former if queue.lite_topic is None}
        last_key, before = self._last_key, [*self._topics]
        for each in (self._topics, self.static_topics, self._queues, self._deleted):
            each.clear()
        self.lites.forget_all()
        await self.load(known)
        self._last_key = max(self._last_key, last_key)
        for queue in former:
            queue.is_gone = self._queues.get(queue.key) is not queue
        for name in before:
            if name not in self._topics:
                self._on_deleted(name)
        self.version.changed(self._writer.now_us())

    def _take_key(self) -> int:
        self._last_key += 1
        return self._last_key

    def __iter__(self) -> Iterator[Topic]:
        return iter(sorted(self._topics.values(), key=lambda topic: topic.name))

    def find_topic(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def get(self, name: str) -> Topic:
        """The topic. Raises TopicNotFoundError."""
        topic = self._topics.get(name)
        if topic is None:
            raise TopicNotFoundError(f"topic[{name}] not exist, apply first please!")
        return topic

    @contextmanager
    def closing(self, *names: str) -> Iterator[None]:
        """Refuse sends to these topics while they are being deleted."""
        self._closing.update(names)
        try:
            yield
        finally:
            self._closing.difference_update(names)

    def was_deleted(self, name: str) -> bool:
        """Whether a topic of this name was deleted, and not created again."""
        return name in self._deleted

    def check_is_open(self, queue: Queue) -> None:
        """Raise TopicNotFoundError if the queue's topic was deleted or is being deleted.

        Also raises it for a queue that is gone because a snapshot was restored.
        """
        self.get(queue.topic)
        if queue.topic in self._closing:
            raise TopicNotFoundError(f"topic[{queue.topic}] is being deleted")
        if queue.is_gone and queue.lite_topic is None:
            raise TopicNotFoundError(f"topic[{queue.topic}] has no queue {queue.queue_id} any more")

    def queue(self, key: int) -> Queue:
        """The queue with this key. Its topic may have been deleted."""
        return self._queues[key]

    def find_by_key(self, key: int) -> Queue | None:
        """Like ``queue``, for rows of a store that was damaged."""
        return self._queues.get(key)

    def queue_of(self, name: str, queue_id: int) -> Queue:
        """The topic's queue. Raises TopicNotFoundError, QueueNotFoundError."""
        queues = self.get(name).queues
        if not 0 <= queue_id < len(queues):
            raise QueueNotFoundError(name, queue_id, len(queues))
        return queues[queue_id]

    def find_queue(self, name: str, queue_id: int) -> Queue | None:
        """The topic's queue, or None."""
        topic = self.find_topic(name)
        return topic.queues[queue_id] if topic and 0 <= queue_id < len(topic.queues) else None

    @property
    def queues(self) -> Iterable[Queue]:
        """The queues of all topics, including deleted ones and those of lite topics."""
        return self._queues.values()

    def queues_with_lites(self, topic: Topic) -> list[Queue]:
        """The queues of the topic and of its lite topics."""
        return [*topic.queues, *self.lites.of(topic.name)]

    async def ensure(self, name: str, queues: int) -> Topic:
        """The topic, created with this number of queues if it does not exist."""
        return self._topics.get(name) or await self.put(
            name, queues, queues, PERM_READ | PERM_WRITE, replace=False
        )

    async def put(
        self,
        name: str,
        read_queues: int,
        write_queues: int,
        perm: int,
        config: TopicConfig | None = None,
        *,
        replace: bool = True,
    ) -> Topic:
        """Create or change the topic. Queues beyond a reduced number are kept but not read, as in RocketMQ.

        Brokers that do not have an existing topic still do not have it afterwards. Without ``config``, an
        existing topic keeps its configuration. A topic that is created again gets its old queues with their
        offsets. Raises InvalidArgumentError for an invalid name, number or permission.
        """
        self.check(name, read_queues, write_queues, perm)
        at = dict.fromkeys(range(self._brokers_of(name)), QueuesAtBroker(read_queues, write_queues, perm))
        async with self.creating:
            topic = self._topics.get(name)
            if topic is None or replace:
                if topic is not None and topic.config.at:
                    at = {each: queues for each, queues in at.items() if topic.is_at(each)}
                topic = await self._change(topic, name, at, config)
        await self._writer.synced()  # after releasing the lock, so that others need not wait
        return topic

    async def put_at(
        self,
        name: str,
        at: Mapping[int, QueuesAtBroker],
        config: TopicConfig | None = None,
        *,
        replace: bool = True,
    ) -> Topic:
        """Like ``put``, but changes only the queues on the brokers in ``at``, by position.

        ``ABSENT`` removes the topic from a broker; the queues are kept, but not read. Also raises
        InvalidArgumentError if no broker would have the topic, or if the topic must be on all brokers.
        """
        for each in at.values():
            if each != ABSENT:
                self.check(name, *each)
        async with self.creating:
            topic = self._topics.get(name)
            if topic is None or replace or not all(map(topic.is_at, at)):
                topic = await self._change(topic, name, at, config)
        await self._writer.synced()
        return topic

    async def put_static(
        self,
        name: str,
        position: int,
        queues: QueuesAtBroker,
        config: TopicConfig,
        mapping: QueueMapping,
        *,
        is_forced: bool,
    ) -> None:
        """Create or change a static topic on the broker with this position.

        The broker may have no queue of the topic. Raises InvalidArgumentError, NoPermissionError for a system
        topic, RefusedError for a mapping that contradicts the broker's mapping and is not forced.
        """
        self.check_is_for_clients(name)
        self.check(name, *queues, least=0)
        if is_at_all_brokers(name, config):
            raise InvalidArgumentError(
                "topic", name, "a topic that belongs to no group and is not of type lite"
            )
        async with self.creating:
            topic = self._topics.get(name)
            known = topic.mapping_at(position) if topic else None
            mapping = mapping.replacing(known, is_forced=is_forced)
            await self._change(topic, name, {position: queues}, config, {position: mapping})
        await self._writer.synced()

    def check_is_at(self, topic: Topic, position: int) -> None:
        """Raise TopicNotFoundError, which begins with RocketMQ's words, if this broker lacks the topic."""
        check_is_at(topic, self.brokers[position])

    def check_may_read(self, topic: Topic, position: int) -> None:
        """Raise TopicNotFoundError or NoPermissionError if consumers may not read the topic there."""
        if topic.config.at:
            self.check_is_at(topic, position)
            if not topic.at_broker(position).perm & PERM_READ:
                raise NoPermissionError(f"the topic[{topic.name}] pulling message is forbidden")

    async def _change(
        self,
        topic: Topic | None,
        name: str,
        given: Mapping[int, QueuesAtBroker],
        config: TopicConfig | None,
        mappings: Mapping[int, QueueMapping] = MappingProxyType({}),
    ) -> Topic:
        """Create the topic, or change the given one; visible on return, but not yet durable.

        A static topic keeps the mappings that ``mappings`` does not replace, whatever ``config`` has.
        """
        known = topic.queues if topic is not None else self._deleted.get(name, [])
        if config is None:
            config = topic.config if topic is not None else PLAIN
        brokers = self._brokers_of(name)
        at = tuple(
            given[each] if each in given else topic.at_broker(each) if topic is not None else ABSENT
            for each in range(brokers)
        )
        read_queues = max(each.read_queues for each in at)
        write_queues = max(each.write_queues for each in at)
        perm = reduce(or_, (each.perm for each in at))
        is_alike = len(set(at)) == 1
        mapped = tuple(
            mappings.get(each, topic.mapping_at(each) if topic is not None else None)
            for each in range(brokers)
        )
        is_static = any(mapped)
        if not read_queues and not is_static:
            raise InvalidArgumentError("brokers", [], "at least one broker that has the topic")
        if not is_alike and is_at_all_brokers(name, config):
            given_names = [self.brokers[each].name for each in given if given[each] != ABSENT]
            raise InvalidArgumentError(
                "brokers",
                given_names,
                f"all brokers alike, because {name} belongs to a group or is of type lite",
            )
        config = msgspec.structs.replace(
            config, at=() if is_alike and not is_static else at, mappings=mapped if is_static else ()
        )
        missing = range(len(known), max(read_queues, write_queues) * brokers)
        added = [Queue(self._take_key(), name, queue_id, largest_body=0) for queue_id in missing]
        if topic is not None and not added and topic.settings == (read_queues, write_queues, perm, config):
            return topic
        changed = Topic(name, read_queues, write_queues, perm, [*known, *added], config, brokers)

        def apply(now_us: int) -> None:
            self._queues.update((queue.key, queue) for queue in added)
            self._set(changed)
            self._deleted.pop(name, None)
            self.version.changed(now_us)

        def work(batch: Batch) -> None:
            row = (name, read_queues, write_queues, perm, _write(config).decode())
            batch.execute(_SAVE_TOPIC, row)
            for queue in added:
                batch.execute(_SAVE_QUEUE, (queue.key, name, queue.queue_id))
            batch.on_commit(partial(apply, batch.now_us))

        await self._writer.commit(work, until="visible")
        return changed

    def check(self, name: str, read_queues: int, write_queues: int, perm: int, *, least: int = 1) -> None:
        """Raise InvalidArgumentError for an invalid name, number or permission."""
        check_topic_name(name)
        for field_name, count in (("read_queues", read_queues), ("write_queues", write_queues)):
            if not least <= count <= MAX_QUEUES:
                raise InvalidArgumentError(field_name, count, f"{least} to {MAX_QUEUES}")
        if not 0 <= perm <= PERM_READ | PERM_WRITE | PERM_INHERIT:
            raise InvalidArgumentError("perm", perm, "a sum of 4 (read), 2 (write) and 1 (inherit)")

    async def put_by_client(
        self,
        name: str,
        read_queues: int,
        write_queues: int,
        perm: int,
        config: TopicConfig | None = None,
        at: Mapping[int, QueuesAtBroker] | None = None,
    ) -> Topic:
        """Like ``put``, or ``put_at`` if ``at`` is given, but refuses system topics, as in RocketMQ."""
        self.check_is_for_clients(name)
        if at is not None:
            return await self.put_at(name, at, config)
        return await self.put(name, read_queues, write_queues, perm, config)

    def check_is_for_clients(self, name: str) -> None:
        """Raise NoPermissionError, in RocketMQ's words, for a system topic."""
        if is_system_topic(name):
            raise NoPermissionError(f"The topic[{name}] is conflict with system topic.")

    def delete(self, batch: Batch, name: str) -> list[Queue]:
        """Delete the topic in this transaction, unless it is deleted already. Returns its queues.

        The queues can still be looked up by key, because messages and offsets refer to them.
        """
        topic = self._topics.get(name)
        if topic is None:
            return []

        def apply() -> None:
            del self._topics[name]
            self.static_topics.pop(name, None)
            self._deleted[name] = topic.queues
            self._on_deleted(name)
            self.version.changed(batch.now_us)

        batch.execute(_DELETE_TOPIC, (name,))
        batch.on_commit(apply)
        return topic.queues

    def levels(self) -> list[Queue]:
        return self._topics[SCHEDULE_TOPIC].queues


def check_is_at(topic: Topic, broker: RegisteredBroker) -> None:
    """Raise TopicNotFoundError, which begins with RocketMQ's words, if the broker lacks the topic."""
    if not topic.is_at(broker.share.position):
        raise TopicNotFoundError(
            f"topic[{topic.name}] not exist, apply first please! {broker.name} does not have it;"
            " other brokers do"
        )


def is_at_all_brokers(name: str, config: TopicConfig = PLAIN) -> bool:
    """Whether all brokers must have the topic, with the same queues."""
    return config.is_lite or name.startswith((RETRY_PREFIX, DLQ_PREFIX))
