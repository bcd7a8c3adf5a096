"""Recalls delayed messages for their senders, by handles."""

import base64
import binascii
import re
from typing import Final, NamedTuple

from mocketmq.broker.inspection.pending import PendingMessages
from mocketmq.broker.registry.brokers import ClusterBrokers
from mocketmq.broker.registry.topics import Topics
from mocketmq.broker.sending.sender import SendResult
from mocketmq.clock import US_PER_MS, Clock, whole_ms_us
from mocketmq.errors import NotPendingError, TopicNotFoundError
from mocketmq.message.names import RETRY_PREFIX

_VERSION: Final = "v1"
_LONG: Final = re.compile(r"[+-]?[0-9]{1,19}")


class RecallHandle(NamedTuple):
    """A recall handle, with which the sender of a delayed message can cancel it.

    The format is RocketMQ's: ``v1 topic broker instant unique-key`` in Base64. The instant is the due time by
    the emulated clock, rounded up to milliseconds.
    """

    topic: str
    broker: str
    due_ms: int
    unique_key: str

    def encode(self) -> str:
        """Encode the handle for the sender."""
        text = f"{_VERSION} {self.topic} {self.broker} {self.due_ms} {self.unique_key}"
        return base64.urlsafe_b64encode(text.encode()).decode()

    @classmethod
    def decode(cls, text: str) -> "RecallHandle":
        """Decode a handle. As in RocketMQ, a non-numeric instant becomes -1. Raises NotPendingError."""
        digits = text.rstrip("=")
        padded = digits + "=" * (-len(digits) % 4)
        try:
            if text not in (digits, padded):
                raise ValueError(text)
            raw = base64.b64decode(padded, altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        parts = raw.decode(errors="replace").split(" ", 4)
        if len(parts) < len(cls._fields) + 1 or parts[0] != _VERSION or not parts[-1]:
            raise NotPendingError("recall handle is invalid")
        _, topic, broker, instant, unique_key = parts
        return cls(topic, broker, int(instant) if _LONG.fullmatch(instant) else -1, unique_key)


def recall_handle_of(sent: SendResult, brokers: ClusterBrokers, *, of_levels: bool) -> str | None:
    """Make the handle of a delayed message; None for any other message, and for retries.

    With ``of_levels``, messages delayed by level also get handles.
    """
    due_us, topic = sent.stored.due_us, sent.queue.topic
    if due_us is None or topic.startswith(RETRY_PREFIX) or (sent.level and not of_levels):
        return None
    return RecallHandle(
        topic,
        brokers.broker_of_queue(sent.queue).name,
        whole_ms_us(due_us) // US_PER_MS,
        sent.stored.unique_key,
    ).encode()


class Recalls:
    """Cancels delayed messages for their senders. RocketMQ recalls timers since 5.3, if enabled."""

    def __init__(self, clock: Clock, topics: Topics, pending: PendingMessages) -> None:
        self._clock = clock
        self._topics = topics
        self._pending = pending

    async def recall(self, topic: str, text: str, *, is_strict: bool) -> str:
        """Recall a topic's message by its handle. Returns its unique key once the recall is durable.

        Checks in RocketMQ's order, but by the emulated clock and without a limit on the due time. Recalling a
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
