"""Recalls of delayed messages by their senders. Upstream has recalls since 5.3, for timers, if enabled."""

from mocketmq.broker.inspection.pending import PendingMessages
from mocketmq.broker.registry.topics import Topics
from mocketmq.broker.sending.recall_handle import RecallHandle
from mocketmq.clock import US_PER_MS, Clock
from mocketmq.errors import NotPendingError, TopicNotFoundError


class Recalls:
    """Cancels delayed messages for their senders."""

    def __init__(self, clock: Clock, topics: Topics, pending: PendingMessages) -> None:
        self._clock = clock
        self._topics = topics
        self._pending = pending

    async def recall(self, topic: str, text: str, *, is_strict: bool) -> str:
        """Recall a topic's message by its handle. Returns its unique key once the recall is durable.

        Checks in upstream's order, but by the emulated clock and without a limit on the due time. Recalling a
        message that is no longer pending succeeds unless ``is_strict``. Raises TopicNotFoundError,
        NotPendingError.
        """
        if self._topics.find_topic(topic) is None:
            raise TopicNotFoundError(f"recall failed, the topic[{topic}] not exist")
        handle = RecallHandle.decode(text)
        if handle.topic != topic:
            raise NotPendingError("recall failed, topic not match")
        brokers = self._topics.brokers
        if handle.broker not in brokers.names or brokers.broker_named(handle.broker).state != "running":
            raise NotPendingError("recall failed, broker service not available")
        if handle.due_ms * US_PER_MS <= self._clock.now_us():
            raise NotPendingError("recall failed, timestamp invalid")
        try:
            await self._pending.recall(topic, handle.unique_key, handle.due_ms * US_PER_MS)
        except NotPendingError as error:
            if is_strict:
                raise NotPendingError(f"recall failed, {error}") from None
        return handle.unique_key
