"""Delayed messages of a cluster that were recorded when they were parked, and not yet read as delivered.

A recording does not say which deliveries were read before it ended. A run that continues it reads them again
where no later message of their queue was recorded. It tells them from messages without a delay by their
unique keys, except for those that were due long before the last line: all that was stored then is passed.
"""

import heapq
from collections import Counter
from typing import Final

from mocketmq.calling.call import ClusterError
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.instant import parse_instant_ms
from mocketmq.message.names import SCHEDULE_TOPIC, TIMER_TOPIC
from mocketmq.recording.recording import RecordedMessage

DELAY_TOPICS: Final = (SCHEDULE_TOPIC, TIMER_TOPIC)
_MOST: Final = 1_000_000
_LONGEST_LEVEL_MS: Final = 2 * 3_600 * US_PER_S // US_PER_MS
"""The longest of RocketMQ's usual levels; a recording has only the numbers of levels."""
_LATENESS_MS: Final = 600 * US_PER_S // US_PER_MS
"""How late a delivery may be."""
_DISORDER_MS: Final = 600 * US_PER_S // US_PER_MS
"""How far the clocks of brokers may differ, or step back."""


class ParkedMessages:
    """Delayed messages that wait for their delivery, by topic and unique key; at most ``most`` of them.

    ``passed_ms`` is the store time up to which a continued recording has all messages.
    """

    def __init__(self, most: int = _MOST) -> None:
        self.passed_ms = 0
        self._most = most
        self._waiting: Counter[tuple[str, str]] = Counter()
        self._dues: list[tuple[int, str, str]] = []

    def park(self, topic: str, key: str) -> None:
        """Remember a delayed message. Raises ClusterError if there are too many."""
        self._waiting[topic, key] += 1
        if len(self._waiting) > self._most:
            raise ClusterError(
                f"more than {self._most} delayed messages wait for their delivery; record less time with"
                " --from and --until"
            )

    def deliver(self, topic: str, key: str) -> bool:
        """Forget a delayed message that is delivered. Returns False if it is not known."""
        place = topic, key
        if place not in self._waiting:
            return False
        self._waiting[place] -= 1
        if not self._waiting[place]:
            del self._waiting[place]
        return True

    def reread(self, message: RecordedMessage) -> None:
        """Take the next line of a recording that is continued. Raises ClusterError, InvalidArgumentError."""
        self.passed_ms = max(self.passed_ms, message.sent_ms - _DISORDER_MS)
        while self._dues and self._dues[0][0] < self.passed_ms - _LATENESS_MS:
            _, topic, key = heapq.heappop(self._dues)
            self.deliver(topic, key)
        if message.origin is not None and message.origin.topic in DELAY_TOPICS and message.message_id:
            heapq.heappush(self._dues, (_latest_due_ms(message), message.topic, message.message_id))
            self.park(message.topic, message.message_id)

    def begin(self) -> None:
        """End the rereading: from now on, only deliveries remove messages."""
        self._dues.clear()


def _latest_due_ms(message: RecordedMessage) -> int:
    if message.deliver_at is not None:
        return parse_instant_ms(message.deliver_at, "deliver_at")
    delay_ms = _LONGEST_LEVEL_MS if message.delay_level else message.delay_ms or 0
    return message.sent_ms + delay_ms
