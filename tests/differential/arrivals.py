"""Tracks when messages reach queues, because a delayed message near another makes their order random."""

from collections.abc import Iterator
from typing import NamedTuple

from mocketmq.clock import US_PER_S
from mocketmq.duration import parse_duration_us
from tests.differential.values import LEVELS

LATE_S = 1.0
"""Maximum lateness of a delayed message on a busy machine."""

_DELAYS_S = [0.0, *(parse_duration_us(delay) / US_PER_S for delay in LEVELS.split())]


class _Arrival(NamedTuple):
    """An arrival between two ``time.monotonic`` instants. A level keeps its order; level 0 means no delay."""

    level: int
    from_s: float
    to_s: float


class Arrivals:
    """Expected arrivals at one broker. Once an order is random, ``by_chance`` is set and comparing stops."""

    def __init__(self) -> None:
        self.by_chance = False
        self._expected: dict[tuple[str, int], list[_Arrival]] = {}

    def add(self, topic: str, queue_id: int, level: int, sent_s: float, answered_s: float) -> None:
        """Record a message that was sent."""
        level = min(level, len(_DELAYS_S) - 1)
        delay_s = _DELAYS_S[level]
        late_s = LATE_S if level else 0.0
        one = _Arrival(level, sent_s + delay_s, answered_s + delay_s + late_s)
        others = self._expected.setdefault((topic, queue_id), [])
        self.by_chance = self.by_chance or any(
            other.level != level and other.from_s < one.to_s and one.from_s < other.to_s for other in others
        )
        others.append(one)

    def overdue(self, now_s: float) -> Iterator[str]:
        """Yield topics whose delayed messages may have arrived or may be late."""
        for (topic, _), expected in self._expected.items():
            if any(one.level and one.from_s < now_s for one in expected):
                yield topic

    def came(self, topic: str) -> None:
        """Record that all messages of the topic have arrived."""
        for key in [key for key in self._expected if key[0] == topic]:
            del self._expected[key]
