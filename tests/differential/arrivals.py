"""When messages come into queues, in real time: a delayed one beside another makes their order chance."""

from collections.abc import Iterator
from typing import NamedTuple

from mocketmq.clock import US_PER_S
from mocketmq.duration import parse_duration_us
from tests.differential.values import LEVELS

LATE_S = 1.0
"""How late a delayed message may be, on a busy machine."""

_DELAYS_S = [0.0, *(parse_duration_us(delay) / US_PER_S for delay in LEVELS.split())]


class _Arrival(NamedTuple):
    """Between these instants of ``time.monotonic``. Messages of one level keep their order; 0 is no delay."""

    level: int
    from_s: float
    to_s: float


class Arrivals:
    """Those at one broker. ``by_chance`` is set once an order is chance, and comparing makes no sense."""

    def __init__(self) -> None:
        self.by_chance = False
        self._expected: dict[tuple[str, int], list[_Arrival]] = {}

    def add(self, topic: str, queue_id: int, level: int, sent_s: float, answered_s: float) -> None:
        """A message was sent."""
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
        """Topics with delayed messages that may have come, or be late."""
        for (topic, _), expected in self._expected.items():
            if any(one.level and one.from_s < now_s for one in expected):
                yield topic

    def came(self, topic: str) -> None:
        """All messages of the topic have come."""
        for key in [key for key in self._expected if key[0] == topic]:
            del self._expected[key]
