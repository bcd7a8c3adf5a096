"""Intake: checks a message before it is stored, and chooses its queue and its delay scheme."""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from mocketmq.broker.registry.groups import Group
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.registry.topic import Topic
from mocketmq.broker.registry.traffic import Kind
from mocketmq.broker.sending.delay_limiter import DelayLimiter
from mocketmq.broker.sending.queue_choice import queue_for_send
from mocketmq.clock import US_PER_MS, US_PER_S, Clock, whole_ms_us
from mocketmq.errors import EmulatorError, GroupNotFoundError, IllegalMessageError
from mocketmq.message.message import MULTI_TAGS_FLAG, Draft, Message, RecordKind, StoredMessage, draft
from mocketmq.message.message_types import checked_lite_topic, checked_priority
from mocketmq.message.names import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC, dead_letter_topic
from mocketmq.message.properties import DELAY, LITE_TOPIC, SHARDING_KEY, TIMER_OUT_MS, WAIT, mark_parked
from mocketmq.rocketmq_versions import V5_0_0
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.scheme_set import Claim, SchemeSet
from mocketmq.store.batch import Batch
from mocketmq.store.queue import LiteQueue, Queue

log = logging.getLogger(__name__)

_ORDERED: Final = f"{SHARDING_KEY}\x01"
_ORDERED_TOO: Final = f"\x02{_ORDERED}"


class RetryLimit:
    """When a retry that a client sends itself becomes a dead letter (SendMessageProcessor.java).

    The limit is that of ``server_version``; ``has_locks`` tells whether a group has locked queues.

    Clients that consume in order lock their queues, and send a message only after its last attempt, with the
    number of its retries. Other clients count the next attempt, too, which RocketMQ 4 did not expect.
    """

    def __init__(self, has_locks: Callable[[str], bool], server_version: int) -> None:
        self._has_locks = has_locks
        self._is_4 = server_version < V5_0_0

    def is_exceeded(self, group: Group, message: Message) -> bool:
        """Whether this retry of the group is a dead letter."""
        times, most = message.reconsume_times, message.max_reconsume_times
        if most is None:
            most = group.max_retries
        return times >= most if self._is_4 else times > most or self._has_locks(group.name)


class AcceptedMessage:
    """An accepted message, and the queue and time at which it becomes visible.

    ``level`` is the delay level after clamping, 0 for none. ``claim`` has the scheme for an absolute due
    time, and is None for a message with a level.
    """

    __slots__ = ("claim", "draft", "level", "queue")

    def __init__(self, queue: Queue, level: int, claim: Claim | None, draft: Draft) -> None:
        self.queue = queue
        self.level = level
        self.claim = claim
        self.draft = draft


class Intake:
    """Accepts or refuses messages, and appends messages to their queue or level queue.

    ``on_sent`` is called for each message that a client has sent or committed, once it is durable.
    """

    def __init__(
        self,
        clock: Clock,
        registry: Registry,
        levels: LevelQueues,
        schemes: SchemeSet,
        retry_limit: RetryLimit,
        max_message_bytes: int,
        delay_limiter: DelayLimiter | None = None,
    ) -> None:
        self.max_message_bytes = max_message_bytes
        self.delay_limiter = delay_limiter
        self.on_sent: Callable[[AcceptedMessage, StoredMessage], None] | None = None
        self._clock = clock
        self._topics = registry.topics
        self._used_topics = registry.used_topics
        self._groups = registry.groups
        self._statistics = registry.statistics
        self._levels = levels
        self._schemes = schemes
        self._retry_limit = retry_limit

    @property
    def is_rocketmq(self) -> bool:
        """Whether RocketMQ's delay limits apply, rather than another system's."""
        return self.delay_limiter is None or self.delay_limiter.delay_limits.name.startswith("rocketmq")

    async def accept(self, message: Message, *, drops_wait: bool = False) -> AcceptedMessage:
        """Decide where and when the message becomes visible. Creates the topic if needed.

        A retry beyond the group's retries becomes a dead letter at once. With ``drops_wait``, a message
        without a delay level loses the property ``WAIT`` (SendMessageProcessor.java, 4.9.8). Raises
        NoPermissionError, TopicNotFoundError, GroupNotFoundError for the retry topic of an unknown group,
        InvalidArgumentError, IllegalMessageError, or a StoreError.
        """
        return self._judge(message, await self._topic_for(message), drops_wait, self._clock.now_us())

    def accept_at_once(self, message: Message, *, drops_wait: bool = False) -> AcceptedMessage | None:
        """Like ``accept``, but returns None for a retry, and if the topic may have to be created."""
        topic = self._topic_at_once(message.topic)
        return None if topic is None else self._judge(message, topic, drops_wait, self._clock.now_us())

    def accept_run(self, messages: Sequence[Message], *, drops_wait: bool) -> list[AcceptedMessage] | None:
        """Like ``accept_at_once``, for messages that are stored together.

        Returns None also for several topics, for an absolute due time, and for several lite messages.
        """
        topic = self._topic_at_once(messages[0].topic)
        if topic is None or (topic.config.is_lite and len(messages) > 1):
            return None  # the quota of lite topics may refuse only some of the messages
        run: list[AcceptedMessage] = []
        now_us = self._clock.now_us()
        for message in messages:
            if message.topic != topic.name:
                return None
            accepted = self._judge(message, topic, drops_wait, now_us)
            if accepted.claim is not None:
                return None
            run.append(accepted)
        return run

    def _topic_at_once(self, name: str) -> Topic | None:
        """The topic for a send; None for a retry topic, and if the topic may have to be created."""
        if name.startswith(RETRY_PREFIX):
            return None
        topic = self._used_topics.ready_for_send(name)
        return None if topic is None or topic.config.at else topic

    def _judge(self, message: Message, topic: Topic, drops_wait: bool, now_us: int) -> AcceptedMessage:
        size = len(message.body)
        if not 0 < size <= self.max_message_bytes:
            # The queue is checked first, as in RocketMQ.
            queue_for_send(topic, message.queue_id, self._topics.brokers)
            raise IllegalMessageError(
                "body", f"the body takes {size} bytes; allowed: 1 to {self.max_message_bytes}"
            )
        if topic.config.filter_type == "MULTI_TAG":
            message.sys_flag |= MULTI_TAGS_FLAG
        queue = self._queue(message, topic)
        level = self.level_of(message.properties)
        claim = self._claim(message, level)
        if self.delay_limiter is not None and not message.topic.startswith(RETRY_PREFIX):
            level, claim = self.delay_limiter.granted(message.properties, level, claim)
        if level:
            mark_parked(message.properties, queue.topic, self._topics.brokers.queue_id(queue))
        elif drops_wait:
            message.properties.pop(WAIT, None)
        return AcceptedMessage(queue, level, claim, draft(message, now_us))

    def _queue(self, message: Message, topic: Topic) -> Queue:
        """The queue for a message. A retry or a dead letter only keeps its lite topic."""
        name = None
        if LITE_TOPIC in message.properties and not message.topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            name = checked_lite_topic(message.properties)
        if name is None:
            return queue_for_send(topic, self._queue_id(message, topic), self._topics.brokers)
        if not topic.config.is_lite:
            raise IllegalMessageError(
                "lite_topic",
                f"property {LITE_TOPIC} is {name!r}, but {topic.name} is of type {topic.config.message_type};"
                " allowed: a topic of type lite. Change the topic's type, or send the message without it",
            )
        if message.delay_us is not None:
            raise IllegalMessageError("lite_topic", "a delayed message cannot have a lite topic")
        queue, brokers = self._topics.lites.for_send(topic.name, name), self._topics.brokers
        if len(brokers.closed) == len(brokers):  # one open broker is enough for the cluster's lite topics
            brokers.check_takes_sends(queue)
        return queue

    def _queue_id(self, message: Message, topic: Topic) -> int | None:
        """The queue that the message asks for, by its priority if it has one.

        A retry only keeps its priority.
        """
        if message.topic.startswith(RETRY_PREFIX):
            return message.queue_id
        priority = checked_priority(message.properties)
        if priority is None:
            return message.queue_id
        given = message.queue_id
        if topic.brokers == 1:
            return min(priority, topic.write_queues - 1)
        if given is None or given < 0:
            given = queue_for_send(topic, None, self._topics.brokers).queue_id
        position = given % topic.brokers
        queue_id = min(priority, max(topic.at_broker(position).write_queues - 1, 0))
        return queue_id * topic.brokers + position

    def _claim(self, message: Message, level: int) -> Claim | None:
        if message.delay_us is not None:
            due_us = self._clock.now_us() + message.delay_us
            message.properties[TIMER_OUT_MS] = str(whole_ms_us(due_us) // US_PER_MS)
            return Claim(self._schemes.timed(), due_us)
        if self._schemes.due_properties.isdisjoint(message.properties) or _has_waited(message, level):
            return None
        return self._schemes.claim(message.properties, level)

    def level_of(self, properties: dict[str, str]) -> int:
        """The requested delay level of a message, like :meth:`LevelTable.level_of`."""
        return self._levels.table.level_of(properties)

    def append_run(
        self, accepted: Sequence[AcceptedMessage], batch: Batch
    ) -> list[StoredMessage | EmulatorError]:
        """Append messages like ``append``, each by itself: for a refused one, the result is the error."""
        results: list[StoredMessage | EmulatorError] = []
        for one in accepted:
            try:
                self._topics.check_is_open(one.queue)
                results.append(self._append(one, batch))
            except EmulatorError as error:
                results.append(error.with_traceback(None))  # which refers to ``results``
        return results

    def append(self, accepted: AcceptedMessage, batch: Batch) -> StoredMessage:
        """Append a message without an absolute due time to its queue, or park it in its level queue.

        Raises TopicNotFoundError if the topic is no longer open. For several messages in one transaction,
        ``check`` all of them before appending the first one.
        """
        self.check(accepted)
        return self._append(accepted, batch)

    def _append(self, accepted: AcceptedMessage, batch: Batch) -> StoredMessage:
        queue, level, draft = accepted.queue, accepted.level, accepted.draft
        kind = _kind(accepted)
        if isinstance(queue, LiteQueue):
            queue = self._topics.lites.prepare(batch, queue)
        elif level:
            return self._levels.park(batch, draft, level, queue, kind if kind == "retried" else "parked")
        return batch.append(queue, draft, kind)

    def notify_sent(self, accepted: AcceptedMessage, stored: StoredMessage) -> None:
        """Call ``on_sent``, if it is set. After an exception, which is logged, it is not called again."""
        if self.on_sent is None:
            return
        try:
            self.on_sent(accepted, stored)
        except Exception:
            self.on_sent = None
            log.exception("bug in mocketmq: the listener for sent messages failed, and is not called again")

    def count(self, accepted: AcceptedMessage) -> None:
        """Count a message that a client sent and that has become durable."""
        queue, level = accepted.queue, accepted.level
        claim, draft = accepted.claim, accepted.draft
        topic = queue.topic
        traffic = self._statistics.only_traffic or self._statistics.traffic_of(queue)
        # The message type that RocketMQ's metrics show, up to 5.5.0 (BrokerMetricsManager.getMessageType). A
        # message with a priority is a normal one.
        kind: Kind = "normal"
        if draft.properties.startswith(_ORDERED) or _ORDERED_TOO in draft.properties:
            kind = "fifo"
        elif level or claim is not None:
            kind = "delay"
        if claim is not None:
            traffic.count_timer(topic, (claim.due_us - self._clock.now_us()) // US_PER_S)
            topic = TIMER_TOPIC
        elif level:
            topic = SCHEDULE_TOPIC
        elif topic.startswith(DLQ_PREFIX):
            traffic.count_dead(topic, topic.removeprefix(DLQ_PREFIX))
        traffic.count_stored(topic, kind, len(draft.body))

    def check(self, *accepted: AcceptedMessage) -> None:
        """Raise TopicNotFoundError if the topic or the queue of a message is gone, or is being deleted."""
        for one in accepted:
            self._topics.check_is_open(one.queue)

    async def _topic_for(self, message: Message) -> Topic:
        if message.topic.startswith(RETRY_PREFIX):
            return await self._topic_of_retry(message)
        return await self._used_topics.for_send(message.topic, message.template, message.queue_id)

    async def _topic_of_retry(self, message: Message) -> Topic:
        """The topic of a retry that a client sends itself (docs/protocol/remoting.md §6.4)."""
        name = message.topic.removeprefix(RETRY_PREFIX)
        if not name:
            raise GroupNotFoundError(f"{message.topic} is the retry topic of no group")
        group = await self._groups.for_use(name)
        topic = await self._used_topics.for_send(message.topic, message.template)
        if not self._retry_limit.is_exceeded(group, message):
            return topic
        dead = await self._used_topics.for_send(dead_letter_topic(name))
        message.queue_id = max(message.queue_id or 0, 0) % dead.brokers  # the first queue of its broker
        message.properties[DELAY] = "0"
        return dead


def _kind(accepted: AcceptedMessage) -> RecordKind:
    """The kind of the visible message's record. Clients also send retries and dead letters."""
    if accepted.queue.topic.startswith(RETRY_PREFIX):
        return "retried"
    if accepted.queue.topic.startswith(DLQ_PREFIX):
        return "dead"
    return "sent" if accepted.draft.prepared_offset is None else "committed"


def _has_waited(message: Message, level: int) -> bool:
    """Whether the message is a retry that was delayed before. Its due time must not take effect again."""
    return not level and message.reconsume_times > 0 and message.topic.startswith(RETRY_PREFIX)
