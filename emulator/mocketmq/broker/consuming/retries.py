"""Retries and dead letters: decides which of the two a message becomes that a consumer gives back.

This decision is also made by ``ConsumingGroup.gives_up`` when an invisible time ends, by
``Pops.pop_within_retries`` when a gRPC client pops, and by ``RetryLimit`` (``sending/intake``) for retries
that clients send themselves.
Source: docs/protocol/remoting.md §6.2
"""

import random
from functools import partial
from typing import NamedTuple

from mocketmq.broker.consuming.receipt import Outcome
from mocketmq.broker.consuming.receipts import Receipts
from mocketmq.broker.registry.groups import Group
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.registry.topic import PERM_READ, PERM_WRITE
from mocketmq.errors import MessageNotFoundError, NoPermissionError
from mocketmq.message.message import Draft, Message, StoredMessage, draft
from mocketmq.message.message_id import offset_message_id
from mocketmq.message.names import dead_letter_topic, retry_topic
from mocketmq.message.properties import (
    DELAY,
    MAX_PROPERTIES_BYTES,
    ORIGIN_MESSAGE_ID,
    RETRY_TOPIC,
    WAIT,
    decode_properties,
    mark_parked,
)
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.store.batch import Batch
from mocketmq.store.messages import messages_at
from mocketmq.store.queue import Queue
from mocketmq.store.store import Store

FIRST_RETRY_LEVEL = 3


class Retry(NamedTuple):
    """The copy of a message that was given back: parked for the retry topic, or a dead letter if level 0."""

    draft: Draft
    level: int
    queue: Queue
    group: str
    origin: str  # the topic to which the message was sent

    @property
    def is_dead(self) -> bool:
        """Whether the copy is for the dead-letter topic."""
        return self.level == 0


class Retries:
    """Makes retries with RocketMQ's delay levels: 3 for the first retry, and one more for each next retry."""

    def __init__(self, store: Store, registry: Registry, receipts: Receipts, levels: LevelQueues) -> None:
        self._database = store.database
        self._writer = store.writer
        self._topics = registry.topics
        self._statistics = registry.statistics
        self._receipts = receipts
        self._levels = levels

    async def prepare(
        self, group: Group, message: StoredMessage, delay_level: int = 0, max_retries: int | None = None
    ) -> Retry:
        """Make the retry of a message that was given back ``reconsume_times`` times before.

        With ``delay_level`` 0 the broker chooses the level. A positive level is used. A negative level makes
        a dead letter at once. ``max_retries`` overrides the group's setting. A missing retry or dead-letter
        topic is created. Raises NoPermissionError if the retry topic is not writable.
        """
        max_retries = group.max_retries if max_retries is None else max_retries
        is_dead = message.reconsume_times >= max_retries or delay_level < 0
        queue = await self.queue_for(group, self._topics.queue(message.queue_key), is_dead=is_dead)
        level = 0 if is_dead else delay_level or FIRST_RETRY_LEVEL + message.reconsume_times
        return self.copy(group, message, queue, level)

    async def queue_for(self, group: Group, of: Queue, *, is_dead: bool) -> Queue:
        """Choose the queue for a dead letter or retry of a message in queue ``of``, at the same broker.

        A missing topic is created. Raises NoPermissionError if the retry topic is not writable.
        """
        share = self._topics.brokers.broker_of_queue(of).share
        if is_dead:
            dead = await self._topics.ensure(dead_letter_topic(group.name), 1)
            return share.own_queues(dead.name, dead.queues)[0]
        topic = await self._topics.ensure(retry_topic(group.name), group.retry_queues)
        if topic.write_queues < group.retry_queues:  # the group's number of retry queues was raised
            topic = await self._topics.put(
                topic.name, group.retry_queues, group.retry_queues, PERM_READ | PERM_WRITE
            )
        if not topic.perm & PERM_WRITE:
            raise NoPermissionError(f"the topic[{topic.name}] sending message is forbidden")
        return random.choice(share.own_queues(topic.name, topic.queues)[: group.retry_queues])  # noqa: S311 - spreads load

    def copy(self, group: Group, message: StoredMessage, queue: Queue, level: int) -> Retry:
        """Copy a message that failed, for a queue from :meth:`queue_for`. Level 0 makes a dead letter."""
        properties = decode_properties(message.properties)
        properties.setdefault(RETRY_TOPIC, self._topics.queue(message.queue_key).topic)
        properties.setdefault(
            ORIGIN_MESSAGE_ID, offset_message_id(self._writer.store_host, message.log_offset)
        )
        properties[WAIT] = "false"
        properties[DELAY] = str(level)
        if level:
            level = self._levels.table.level_of(properties)
            mark_parked(properties, queue.topic, self._topics.brokers.queue_id(queue))
        again = Message(
            queue.topic,
            message.body,
            properties,
            flag=message.flag,
            sys_flag=message.sys_flag,
            born_us=message.born_us,
            born_host=message.born_host,
            reconsume_times=message.reconsume_times + 1,
            door=message.door,
        )
        # Twice the limit, because properties added by the broker must not make an accepted message fail here.
        content = draft(again, message.store_us, 2 * MAX_PROPERTIES_BYTES)
        return Retry(content, level, queue, group.name, properties[RETRY_TOPIC])

    def check(self, retry: Retry) -> None:
        """Raise TopicNotFoundError if the queue of the retry is gone."""
        self._topics.check_is_open(retry.queue)

    def append(self, batch: Batch, retry: Retry) -> StoredMessage:
        """Store the retry in this transaction."""
        if retry.is_dead:
            traffic = self._statistics.traffic_of(retry.queue)
            batch.on_commit(partial(traffic.count_dead, retry.origin, retry.group))
            return batch.append(retry.queue, retry.draft, "dead")
        return self._levels.park(batch, retry.draft, retry.level, retry.queue, "retried")

    async def give_back(
        self, group_name: str, log_offset: int, delay_level: int, max_retries: int | None = None
    ) -> None:
        """Retry the message later, or make it a dead letter, like :meth:`Settler.give_back`.

        ``max_retries`` overrides the group's setting. Raises GroupNotFoundError, MessageNotFoundError,
        NoPermissionError, and TopicNotFoundError if the retry topic was deleted meanwhile.
        """
        group = await self._receipts.groups.for_use(group_name)
        message = (await messages_at(self._database, [log_offset])).get(log_offset)
        if message is None or message.real_queue_key is not None:
            raise MessageNotFoundError(f"look message by offset failed, {log_offset}")
        retry = await self.prepare(group.registered, message, delay_level, max_retries)
        queue = self._topics.queue(message.queue_key)
        topic = decode_properties(message.properties).get(RETRY_TOPIC, queue.topic)

        def work(batch: Batch) -> None:
            self.check(retry)
            self.append(batch, retry)
            receipt = group.receipts.get(log_offset)
            if receipt is not None and receipt.can_be_settled:  # otherwise a receive is taking the message
                self._receipts.settle(batch, receipt, Outcome.DEAD if retry.is_dead else Outcome.RETRIED)
            batch.on_commit(partial(self._statistics.gave_back, topic, group.name))
            # A later commit of an offset above the message must not acknowledge it.
            group.pulled.get(queue, {}).pop(message.queue_offset, None)

        await self._writer.commit(work)
