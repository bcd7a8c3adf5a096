"""Arrivals know when the order in which messages reach a queue is random."""

import pytest

from tests.differential.arrivals import LATE_S, Arrivals


@pytest.mark.parametrize(
    ("level", "sent_s", "by_chance"),
    [
        (0, 0.5, False),  # arrives before it
        (0, 1.5, True),
        (0, 2.1, True),  # it may be late
        (0, 2.0 + LATE_S, False),
        (1, 0.9, True),  # both at 2
        (2, 0.1, False),  # one level is first in, first out
        (4, 1.0, False),
    ],
)
def test_a_message_beside_one_of_level_2(level: int, sent_s: float, by_chance: bool) -> None:
    """The message of level 2 is sent at 0 and arrives after 2 s. The other's answer takes 0.6 s."""
    arrivals = Arrivals()
    arrivals.add("T", 0, 2, 0.0, 0.0)
    arrivals.add("T", 1, level, sent_s, sent_s + 0.6)
    assert not arrivals.by_chance
    arrivals.add("T", 0, level, sent_s, sent_s + 0.6)
    assert arrivals.by_chance is by_chance


def test_comparison_waits_for_late_messages() -> None:
    arrivals = Arrivals()
    arrivals.add("T", 0, 2, 0.0, 0.1)
    arrivals.add("T", 0, 0, 0.2, 0.3)
    assert list(arrivals.overdue(1.9)) == []
    assert list(arrivals.overdue(2.1)) == ["T"]
    arrivals.came("T")
    assert list(arrivals.overdue(2.1)) == []
    arrivals.add("T", 0, 0, 2.2, 2.3)
    assert not arrivals.by_chance
