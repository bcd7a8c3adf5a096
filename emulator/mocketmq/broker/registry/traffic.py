"""Traffic: messages in and out by topic, type and group, divided as in the metrics of RocketMQ 5.

What is counted, and under which topic, follows BrokerMetricsManager and its callers: a delayed message counts
as incoming for the topic in which it waits, and again for its own topic once its delay is over. Sizes are
body sizes, as in ``statistics``. All counts start at 0 with the broker.
"""

from collections import Counter
from typing import Any, Final, Literal

from mocketmq.event_loop import EventLoopTurns
from mocketmq.histogram import Histogram
from mocketmq.message.names import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC

Kind = Literal["normal", "fifo", "delay", "transaction"]
"""The value of the label ``message_type``."""

SCHEDULE_CONSUMER: Final = "SCHEDULE_CONSUMER"
"""The group for which RocketMQ counts messages whose delay level is over."""

SIZES: Final = (1 << 10, 4 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20)
"""Bounds of message sizes, in bytes."""
FINISH_S: Final = (5, 60, 600, 3_600, 12 * 3_600, 24 * 3_600)
"""Bounds of the time from a half message to its commit, in seconds."""
DELAYS_S: Final = (60, 600, 3_600, 12 * 3_600, 24 * 3_600, 72 * 3_600)
"""Bounds of requested delays, in seconds."""
COPIED_AT_ONCE: Final = 500
"""Number of series that are copied before other tasks get a turn."""


class Traffic:
    """The traffic counts of one broker.

    ``received`` and ``received_bytes`` are by topic, group, and whether the message is a retry. The last is
    None for pulling consumers, whose retries RocketMQ does not count. ``dead`` is by the original topic and
    the group.
    """

    def __init__(self) -> None:
        self.stored: dict[tuple[str, Kind], Histogram] = {}  # sizes
        self.received: Counter[tuple[str, str, bool | None]] = Counter()
        self.received_bytes: Counter[tuple[str, str, bool | None]] = Counter()
        self.dead: Counter[tuple[str, str]] = Counter()
        self.committed: dict[str, Histogram] = {}  # seconds since the half message
        self.rolled_back: Counter[str] = Counter()
        self.timers_set: dict[str, Histogram] = {}  # delays in seconds
        self.timers_fired: Counter[str] = Counter()

    def count_stored(self, topic: str, kind: Kind, size: int) -> None:
        """Count a message that was stored. Retries and dead letters do not count."""
        found = self.stored.get((topic, kind))
        if found is None:  # not for every send, for speed
            if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
                return
            found = self.stored[topic, kind] = Histogram(SIZES)
        found.record(size)

    def count_received(
        self, topic: str, group: str, messages: int, size: int, *, is_retry: bool | None
    ) -> None:
        """Count messages that a consumer received. Retries and dead letters that it pulled do not count."""
        if messages and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            self.received[topic, group, is_retry] += messages
            self.received_bytes[topic, group, is_retry] += size

    def count_delivered(self, topic: str, level: int | None, size: int, messages: int) -> None:
        """Count delayed messages of this size that became visible."""
        if level is None:
            self.timers_fired[topic] += messages
            return
        self.count_received(SCHEDULE_TOPIC, SCHEDULE_CONSUMER, messages, size * messages, is_retry=None)
        _histogram(self.stored, (topic, "delay"), SIZES).record(size, messages)

    def count_timer(self, topic: str, delay_s: int) -> None:
        """Count a message with an absolute due time that was stored."""
        _histogram(self.timers_set, topic, DELAYS_S).record(max(delay_s, 0))

    def count_dead(self, topic: str, group: str) -> None:
        """Count a message of the topic that became a dead letter of the group."""
        self.dead[topic, group] += 1

    def count_commit(self, topic: str, waited_s: int) -> None:
        """Count a half message that was committed."""
        _histogram(self.committed, topic, FINISH_S).record(max(waited_s, 0))

    async def snapshot(self, turns: EventLoopTurns) -> "Traffic":
        """A copy of all counts, made in turns, because there may be many topics."""
        copy = Traffic()
        for table, copied in zip(_tables(self), _tables(copy), strict=True):
            for number, (key, value) in enumerate(list(table.items()), 1):
                copied[key] = value.copy() if isinstance(value, Histogram) else value
                if number % COPIED_AT_ONCE == 0:
                    await turns.next_turn()
        return copy

    def forget_topic(self, topic: str) -> None:
        """Drop the counts of a deleted topic."""
        by_topic: tuple[dict[str, Any], ...]
        by_topic = (self.committed, self.rolled_back, self.timers_set, self.timers_fired)
        for table in by_topic:
            table.pop(topic, None)
        _forget((self.stored, self.received, self.received_bytes, self.dead), 0, topic)

    def forget_group(self, group: str) -> None:
        """Drop the counts of a deleted group."""
        _forget((self.received, self.received_bytes, self.dead), 1, group)


def _tables(traffic: Traffic) -> tuple[dict[Any, Any], ...]:
    """All counts, in this order."""
    return (
        *(traffic.stored, traffic.received, traffic.received_bytes, traffic.dead),
        *(traffic.committed, traffic.rolled_back, traffic.timers_set, traffic.timers_fired),
    )


def _forget(tables: tuple[dict[Any, Any], ...], part: int, name: str) -> None:
    """Drop all rows whose keys have the name in this part."""
    for table in tables:
        for key in [key for key in table if key[part] == name]:
            del table[key]


def _histogram(table: dict[Any, Histogram], key: object, bounds: tuple[int, ...]) -> Histogram:
    found = table.get(key)
    if found is None:
        found = table[key] = Histogram(bounds)
    return found
