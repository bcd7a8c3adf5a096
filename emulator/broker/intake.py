"""Intake: what is decided about a message before it is stored."""

from typing import NamedTuple

from emulator.broker.groups import Groups
from emulator.broker.topics import Topic, Topics
from emulator.clock import Clock
from emulator.errors import GroupNotFoundError, IllegalMessageError
from emulator.message import RETRY_PREFIX, Draft, Message, StoredMessage, draft, mark_parked
from emulator.schedule.level_queues import LevelQueues
from emulator.schedule.scheme import DueTimes
from emulator.store.queues import Queue
from emulator.store.writer import Batch


class Judged(NamedTuple):
    """A message that may be stored: where it becomes visible, and when."""

    queue: Queue
    level: int  # delay level after clamping, 0 for none
    due_us: int | None  # absolute due time, for the timed scheme; never beside a level
    draft: Draft


class Intake:
    """Judges messages, and appends those that the store itself keeps."""

    def __init__(
        self,
        clock: Clock,
        topics: Topics,
        groups: Groups,
        levels: LevelQueues,
        due_times: DueTimes,
        max_message_bytes: int,
    ) -> None:
        self.max_message_bytes = max_message_bytes
        self._clock = clock
        self._topics = topics
        self._groups = groups
        self._levels = levels
        self._due_times = due_times

    async def judge(self, message: Message) -> Judged:
        """Decide where and when the message goes; its topic is made if need be.

        Raises NoPermissionError, TopicNotFoundError, GroupNotFoundError for the retry topic of no group,
        InvalidArgumentError, IllegalMessageError, or a StoreError.
        """
        topic = await self._topic_for(message)
        size = len(message.body)
        if not 0 < size <= self.max_message_bytes:
            raise IllegalMessageError(
                "body", f"the body has {size} bytes; allowed: 1 to {self.max_message_bytes}"
            )
        queue = self._topics.queue_for_send(topic, message.queue_id)
        level = self._levels.table.level_of(message.properties)
        due_us = self._due_times.due_us(message.properties, level)
        if level:
            mark_parked(message.properties, queue.topic, queue.queue_id)
        return Judged(queue, level, due_us, draft(message, self._clock.now_us()))

    def append(self, judged: Judged, batch: Batch) -> StoredMessage:
        """Store a message without an absolute due time: visible at once, or parked in its level queue."""
        if judged.level:
            return self._levels.park(batch, judged.draft, judged.level, judged.queue)
        return batch.append(judged.queue, judged.draft)

    async def _topic_for(self, message: Message) -> Topic:
        if message.topic.startswith(RETRY_PREFIX):
            group = message.topic.removeprefix(RETRY_PREFIX)
            if not group:
                raise GroupNotFoundError(f"{message.topic} is the retry topic of no group")
            await self._groups.for_use(group)  # sheet 6.4
        return await self._topics.for_send(message.topic)
