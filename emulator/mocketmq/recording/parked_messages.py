"""Delayed messages of a cluster that were recorded when parked, and whose delivery was not read yet.

A recording does not show which deliveries were read before it ended. A run that continues the recording reads
deliveries again in queues without a later recorded message. The run distinguishes deliveries from messages
without a delay by their unique keys. The keys of messages that were due long before the last line are
forgotten, because the run skips all messages stored so early.
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
"""The longest of RocketMQ's default levels; a recording has only the numbers of levels."""
_LATENESS_MS: Final = 600 * US_PER_S // US_PER_MS
"""Maximum lateness of a delivery."""
_DISORDER_MS: Final = 600 * US_PER_S // US_PER_MS
"""Maximum difference between the clocks of brokers, or step back of a clock."""


class ParkedMessages:
    """At most ``most`` delayed messages that wait for their delivery, by topic and unique key.

    A continued recording is complete up to the store time ``passed_ms``.
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
                f"more than {self._most} delayed messages are waiting for delivery; record less time with"
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
        """Process a line of a recording that is continued. Raises ClusterError, InvalidArgumentError."""
        self.passed_ms = max(self.passed_ms, message.sent_ms - _DISORDER_MS)
        while self._dues and self._dues[0][0] < self.passed_ms - _LATENESS_MS:
            _, topic, key = heapq.heappop(self._dues)
            self.deliver(topic, key)
        if message.origin is not None and message.origin.topic in DELAY_TOPICS and message.message_id:
            heapq.heappush(self._dues, (_latest_due_ms(message), message.topic, message.message_id))
            self.park(message.topic, message.message_id)

    def begin(self) -> None:
        """End the rereading. From now on, only deliveries remove messages."""
        self._dues.clear()


def _latest_due_ms(message: RecordedMessage) -> int:
    if message.deliver_at is not None:
        return parse_instant_ms(message.deliver_at, "deliver_at")
    delay_ms = _LONGEST_LEVEL_MS if message.delay_level else message.delay_ms or 0
    return message.sent_ms + delay_ms
