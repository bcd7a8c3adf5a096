"""Decide about a message before it is stored: whether it is accepted, its queue, its delay scheme."""

from typing import NamedTuple

from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.registry.topics import Topic
from mocketmq.broker.sending.contracted import Contracted
from mocketmq.clock import Clock
from mocketmq.errors import GroupNotFoundError, IllegalMessageError
from mocketmq.message.message import MULTI_TAGS_FLAG, Draft, Message, StoredMessage, draft
from mocketmq.message.names import RETRY_PREFIX, dead_letter_topic
from mocketmq.message.properties import DELAY, WAIT, check_effective, mark_parked
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.scheme_set import Claim, SchemeSet
from mocketmq.store.queue import Queue
from mocketmq.store.writer import Batch


class AcceptedMessage(NamedTuple):
    """A message that may be stored; where it becomes visible, and when."""

    queue: Queue
    level: int  # delay level after clamping, 0 for none
    claim: Claim | None  # the scheme that keeps it until an absolute due time; never beside a level
    draft: Draft


class Intake:
    """Accepts messages or refuses them, and appends those that the store itself keeps."""

    def __init__(
        self,
        clock: Clock,
        registry: Registry,
        levels: LevelQueues,
        schemes: SchemeSet,
        max_message_bytes: int,
        contracted: Contracted | None = None,
    ) -> None:
        self.max_message_bytes = max_message_bytes
        self.contracted = contracted
        self._clock = clock
        self._topics = registry.topics
        self._groups = registry.groups
        self._levels = levels
        self._schemes = schemes

    @property
    def is_rocketmq(self) -> bool:
        """Whether no contract of another system is in force."""
        return self.contracted is None or self.contracted.contract.name.startswith("rocketmq")

    async def accept(self, message: Message, *, drops_wait: bool = False) -> AcceptedMessage:
        """Decide where and when the message goes; its topic is created if need be.

        A retry that came once too often becomes a dead letter at once. ``drops_wait``: without a
        delay level the message loses ``WAIT`` (SendMessageProcessor.java, 4.9.8).
        Raises NoPermissionError, TopicNotFoundError, GroupNotFoundError for the retry topic of no group,
        InvalidArgumentError, IllegalMessageError, or a StoreError.
        """
        check_effective(message.properties)
        return self._judge(message, await self._topic_for(message), drops_wait)

    def accept_at_once(self, message: Message, *, drops_wait: bool = False) -> AcceptedMessage | None:
        """As ``accept``, but None for a retry, and for a message whose topic is not there yet."""
        check_effective(message.properties)
        if message.topic.startswith(RETRY_PREFIX):
            return None
        topic = self._topics.ready_for_send(message.topic)
        return None if topic is None else self._judge(message, topic, drops_wait)

    def _judge(self, message: Message, topic: Topic, drops_wait: bool) -> AcceptedMessage:
        size = len(message.body)
        if not 0 < size <= self.max_message_bytes:
            raise IllegalMessageError(
                "body", f"the body has {size} bytes; allowed: 1 to {self.max_message_bytes}"
            )
        if topic.config.filter_type == "MULTI_TAG":
            message.sys_flag |= MULTI_TAGS_FLAG
        queue = self._topics.queue_for_send(topic, message.queue_id)
        level = self.level_of(message.properties)
        claim = None if _has_waited(message, level) else self._schemes.claim(message.properties, level)
        if self.contracted is not None and not message.topic.startswith(RETRY_PREFIX):
            level, claim = self.contracted.granted(message.properties, level, claim)
        if level:
            mark_parked(message.properties, queue.topic, queue.queue_id)
        elif drops_wait:
            message.properties.pop(WAIT, None)
        return AcceptedMessage(queue, level, claim, draft(message, self._clock.now_us()))

    def level_of(self, properties: dict[str, str]) -> int:
        """The delay level that a message asks for. As :meth:`LevelTable.level_of`."""
        return self._levels.table.level_of(properties)

    def append(self, accepted: AcceptedMessage, batch: Batch) -> StoredMessage:
        """Store a message without an absolute due time: visible at once, or parked in its level queue.

        Raises TopicNotFoundError if its topic is no longer open. Of several in one transaction, ``check``
        them all before the first is stored.
        """
        self.check(accepted)
        if accepted.level:
            return self._levels.park(batch, accepted.draft, accepted.level, accepted.queue)
        return batch.append(accepted.queue, accepted.draft)

    def check(self, *accepted: AcceptedMessage) -> None:
        """Raise TopicNotFoundError if a topic is deleted, or being deleted: nobody would get the message."""
        for one in accepted:
            self._topics.check_is_open(one.queue.topic)

    async def _topic_for(self, message: Message) -> Topic:
        if message.topic.startswith(RETRY_PREFIX):
            return await self._topic_of_retry(message)
        return await self._topics.for_send(message.topic, message.template)

    async def _topic_of_retry(self, message: Message) -> Topic:
        """Clients send retries themselves when they cannot send back (docs/protocol/remoting.md §6.4)."""
        name = message.topic.removeprefix(RETRY_PREFIX)
        if not name:
            raise GroupNotFoundError(f"{message.topic} is the retry topic of no group")
        group = await self._groups.for_use(name)
        topic = await self._topics.for_send(message.topic, message.template)
        most = message.max_reconsume_times
        if message.reconsume_times < (group.max_retries if most is None else most):
            return topic
        message.queue_id = 0
        message.properties[DELAY] = "0"
        return await self._topics.for_send(dead_letter_topic(name))


def _has_waited(message: Message, level: int) -> bool:
    """Whether it is a retry that waited already: a due time that it still bears must not count again."""
    return not level and message.reconsume_times > 0 and message.topic.startswith(RETRY_PREFIX)
