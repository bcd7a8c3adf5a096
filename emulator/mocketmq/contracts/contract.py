"""A contract: which delays a system refuses, rounds or holds up. It judges one delay, or an array of them.

The broker judges a message that is sent, and a report all rows of a ledger, by the same methods: they take
whole numbers as well as NumPy's arrays of them. All times are microseconds.
"""

from bisect import bisect_right, insort
from typing import Any, Final, Literal, NamedTuple

from mocketmq.duration import format_duration

Way = Literal["level", "timer", "start"]
"""How a delay is asked for: by level, by ``TIMER_*``, or by ``__STARTDELIVERTIME``."""

ENDLESS_US: Final = 1 << 62


class Source(NamedTuple):
    """Where a limit is stated."""

    says: str
    url: str
    date: str  # of the page itself, or "read" and the day; or a version
    unverified: str = ""  # the part of it that could not be verified


class Contract(NamedTuple):
    """The limits of one system. ``docs/contracts.md`` has them for readers."""

    name: str
    title: str
    sources: tuple[Source, ...]
    longest_us: int = ENDLESS_US
    beyond: Literal["refused", "at once"] = "refused"  # what happens to longer delays
    refusal: str = ""  # the system's own words, with {s}, {ms}; empty: not known
    grain_us: int = 1  # delays, or due times, are rounded up to a multiple
    rounds: Literal["delay", "due time"] = "delay"
    soon_us: int = 0  # a delay up to this is delivered at once
    knows_levels: bool = False  # has RocketMQ's delay levels, which it takes as they are
    ignores: frozenset[Way] = frozenset()  # ways of asking that the system ignores: delivered at once
    ahead: int | None = None  # most delayed messages of a topic; a further one waits for one of these
    in_flight: int | None = None  # most messages of a topic that may be in flight
    over_limit: str = ""  # the system's own words for a receive beyond that, which does not wait

    def is_beyond(self, delay_us: Any) -> Any:
        """Whether a delay is longer than the longest."""
        return delay_us > self.longest_us

    def is_at_once(self, delay_us: Any, *, ignored: Any) -> Any:
        """Whether a message with this delay would not be delayed at all.

        ``ignored``: whether it asks in a way that the system does not know.
        """
        too_long = self.is_beyond(delay_us) & (self.beyond == "at once")
        return too_long | (delay_us <= self.soon_us) | ignored

    def is_refused(self, delay_us: Any, *, ignored: Any) -> Any:
        """Whether a message with this delay would be refused."""
        return self.is_beyond(delay_us) & (self.beyond == "refused") & (ignored == False)  # noqa: E712 - arrays

    def rounded_us(self, from_us: Any, due_us: Any) -> Any:
        """The due time that the system gives to a message which it accepts at ``from_us``, by no level."""
        if self.rounds == "due time":
            return -(-due_us // self.grain_us) * self.grain_us
        return from_us - (from_us - due_us) // self.grain_us * self.grain_us

    def words(self, delay_us: int) -> str:
        """The error for the sender of a refused message."""
        if self.refusal:
            return self.refusal.format(s=-(-delay_us // 1_000_000), ms=-(-delay_us // 1_000))
        longest = format_duration(self.longest_us)
        return f"{self.title} refuses a delay of {format_duration(delay_us)}; allowed: at most {longest}"


class Waiting:
    """The due times of one topic's delayed messages, in order, for systems with head-of-line blocking."""

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead
        self._due_us: list[int] = []

    def load(self, due_us: int) -> None:
        """Add a message whose due time is known."""
        insort(self._due_us, due_us)

    def add(self, now_us: int, due_us: int) -> int:
        """Add a message that arrives at ``now_us``; return its due time, after the messages that block it."""
        del self._due_us[: bisect_right(self._due_us, now_us)]
        surplus = len(self._due_us) - self._ahead
        if surplus >= 0:
            due_us = max(due_us, self._due_us[surplus])
        insort(self._due_us, due_us)
        return due_us
