"""Delay limits, which determine the delays that a system refuses, rounds or holds up.

The broker checks each sent message, and a report checks all rows of a ledger, by the same methods. The
methods therefore take an integer or a NumPy array of integers. All times are microseconds.
"""

from bisect import bisect_right, insort
from typing import Any, Final, Literal, NamedTuple

from mocketmq.duration import format_duration

Way = Literal["level", "timer", "start"]
"""How a message requests its delay: by level, by ``TIMER_*``, or by ``__STARTDELIVERTIME``."""

ENDLESS_US: Final = 1 << 62


class Source(NamedTuple):
    """The document that states a limit."""

    says: str
    url: str
    date: str  # date of the page, "read" and the day of reading, or a version
    unverified: str = ""  # the part of the limit that could not be verified


class DelayLimits(NamedTuple):
    """The limits of one system. ``docs/delay-limits.md`` describes them."""

    name: str
    title: str
    sources: tuple[Source, ...]
    longest_us: int = ENDLESS_US
    beyond: Literal["refused", "at once"] = "refused"  # the outcome of longer delays
    refusal: str = ""  # the system's own words, with {s}, {ms}; empty if unknown
    grain_us: int = 1  # delays or due times are rounded up to a multiple of this
    rounds: Literal["delay", "due time"] = "delay"
    soon_us: int = 0  # messages with a delay up to this are delivered at once
    knows_levels: bool = False  # RocketMQ's delay levels are supported without limits
    ignores: frozenset[Way] = frozenset()  # ways that the system ignores, so it delivers at once
    ahead: int | None = None  # maximum number of delayed messages of a topic; further messages wait
    in_flight: int | None = None  # maximum number of a topic's messages in flight
    over_limit: str = ""  # the system's own words for a receive above that maximum, which does not wait

    def is_beyond(self, delay_us: Any) -> Any:
        """Whether a delay is longer than the system's longest delay."""
        return delay_us > self.longest_us

    def is_at_once(self, delay_us: Any, *, ignored: Any) -> Any:
        """Whether the system would deliver a message with this delay at once.

        ``ignored`` is whether the message requests the delay in a way that the system ignores.
        """
        too_long = self.is_beyond(delay_us) & (self.beyond == "at once")
        return too_long | (delay_us <= self.soon_us) | ignored

    def is_refused(self, delay_us: Any, *, ignored: Any) -> Any:
        """Whether a message with this delay would be refused."""
        return self.is_beyond(delay_us) & (self.beyond == "refused") & (ignored == False)  # noqa: E712 - arrays

    def rounded_us(self, from_us: Any, due_us: Any) -> Any:
        """The due time that the system gives to a message without a level, accepted at ``from_us``."""
        if self.rounds == "due time":
            return -(-due_us // self.grain_us) * self.grain_us
        return from_us - (from_us - due_us) // self.grain_us * self.grain_us

    def words(self, delay_us: int) -> str:
        """The error text for the sender of a refused message."""
        if self.refusal:
            return self.refusal.format(s=-(-delay_us // 1_000_000), ms=-(-delay_us // 1_000))
        longest = format_duration(self.longest_us)
        return f"{self.title} refuses a delay of {format_duration(delay_us)}; allowed: at most {longest}"


class WaitingLine:
    """The due times of one topic's delayed messages, in order, for systems with head-of-line blocking."""

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead
        self._due_us: list[int] = []

    def load(self, due_us: int) -> None:
        """Add a message whose due time is known."""
        insort(self._due_us, due_us)

    def join(self, now_us: int, due_us: int) -> int:
        """Add a message that arrives at ``now_us``. Return its due time, after the messages that block it."""
        del self._due_us[: bisect_right(self._due_us, now_us)]
        surplus = len(self._due_us) - self._ahead
        if surplus >= 0:
            due_us = max(due_us, self._due_us[surplus])
        insort(self._due_us, due_us)
        return due_us
