"""The emulated clock, and the only module that reads the system's clocks.

One class serves all three modes, which differ only in the rate of emulated time against real time. The rate
is 1 for ``real``, 0 for ``manual`` and N for ``xN``. All other modules get a :class:`Clock` and use integer
microseconds since the epoch (``_us``).

The clock's base is an emulated instant and the steady clock's reading at that instant. The current time is
the base plus the elapsed steady time multiplied by the rate. A clock move sets a new base. The wall clock
counts only at the start, so a step of the wall clock neither delays nor releases a message. The steady clock
includes time in suspend. Emulated time never runs backwards, except in a full reset.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from mocketmq.duration import format_duration
from mocketmq.errors import ClockError
from mocketmq.instant import format_instant

US_PER_MS: Final = 1_000
US_PER_S: Final = 1_000_000
LATEST_US: Final = 253_402_300_799_999_999
"""Last instant of the year 9999, at which the clock ends."""

_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", None) or time.CLOCK_MONOTONIC
_DRIFT_US: Final = 100 * US_PER_MS
"""Difference from the wall clock above which the wall clock was stepped, not slewed."""
_TOGETHER_US: Final = 20
"""Maximum time between two readings that count as simultaneous."""
_READINGS: Final = 20


def wall_us() -> int:
    """The machine's wall clock, for starts, retention, certificates, and times that clients compare."""
    return time.time_ns() // 1_000


def steady_us() -> int:
    """A clock that never steps and does not stop while the machine is suspended."""
    return time.clock_gettime_ns(_STEADY) // 1_000


class Moment(NamedTuple):
    """One instant, by the wall clock and by the steady clock."""

    wall_us: int
    steady_us: int


def this_moment(wall: Callable[[], int] = wall_us, steady: Callable[[], int] = steady_us) -> Moment:
    """Read both clocks together; retry if the process was descheduled between the readings."""
    apart_us, read = LATEST_US, Moment(0, 0)
    for _ in range(_READINGS):
        before_us, at_wall_us, after_us = steady(), wall(), steady()
        if after_us - before_us < apart_us:
            apart_us, read = after_us - before_us, Moment(at_wall_us, before_us)
        if apart_us <= _TOGETHER_US:
            break
    return read


_imported_us = steady_us()


def process_age_us() -> int:
    """Age of this process with a precision of 10 ms; without /proc, the time since the import."""
    try:
        # Field 22, counted from 1, is the start in ticks since boot. An earlier field is a name in
        # parentheses, which may contain spaces.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        return steady_us() - int(fields[19]) * US_PER_S // os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return steady_us() - _imported_us


class Clock:
    """Emulated time, which runs ``rate`` times as fast as real time, and can be moved forward.

    The clock shows ``start_us`` at the moment ``started``, by default now.
    """

    def __init__(
        self,
        rate: float,
        start_us: int,
        ticks: Callable[[], int] = steady_us,
        wall: Callable[[], int] = wall_us,
        started: Moment | None = None,
    ) -> None:
        self.rate = rate
        self._ticks = ticks
        self._wall = wall
        self._started_us = start_us
        self._start(start_us, started or this_moment(wall, ticks))

    def _start(self, instant_us: int, moment: Moment) -> None:
        self._base_us, self._base_ticks = instant_us, moment.steady_us
        # At rate 1, this is the lead of the clock over the wall clock, until the wall clock is stepped.
        self._ahead_us = instant_us - moment.wall_us

    @property
    def mode(self) -> str:
        """``real``, ``manual`` or ``xN``, as in the setting."""
        if self.rate == 0:
            return "manual"
        return "real" if self.rate == 1 else f"x{self.rate:.15g}"

    def now_us(self) -> int:
        """The emulated instant. Only :meth:`begin_at` can decrease it."""
        return self._at(self._ticks()) if self.rate else self._base_us

    def _at(self, ticks: int) -> int:
        elapsed_us = ticks - self._base_ticks
        return self._base_us + (elapsed_us if self.rate == 1 else int(elapsed_us * self.rate))

    def seconds_until(self, instant_us: int) -> float | None:
        """Real seconds until the clock reaches the instant by itself; None if it never does."""
        remaining_us = instant_us - self.now_us()
        if remaining_us <= 0:
            return 0.0
        return remaining_us / self.rate / US_PER_S if self.rate else None

    def reach(self, instant_us: int) -> None:
        """Set the clock forward to a later instant. Delivers nothing, unlike the timer's ``move``."""
        ticks = self._ticks()
        moved_us = instant_us - self._at(ticks)
        if moved_us > 0:
            self._base_ticks = ticks
            self._base_us = instant_us
            self._ahead_us += moved_us

    @property
    def start_us(self) -> int:
        """The time of a clock that was never moved: the start if it is manual, otherwise the wall clock."""
        return self._wall() if self.rate else self._started_us

    def check_beginning(self, instant_us: int) -> None:
        """Raise ClockError for an instant before the clock's start, or after its end."""
        if instant_us < self._started_us:
            raise ClockError(
                f"the clock cannot go back to {format_instant(instant_us)}:"
                f" this run began at {format_instant(self._started_us)};"
                " choose a later instant, or restart with an empty data directory"
            )
        check_move(self._started_us, instant_us)

    def begin_at(self, instant_us: int) -> None:
        """Set the clock to any instant, even backwards. The broker must be empty."""
        self._start(instant_us, this_moment(self._wall, self._ticks))

    def from_wall(self, instant_us: int) -> int:
        """Convert an instant that a client computed from the machine's wall clock to an emulated instant.

        The result is as far from the emulated now as the given instant is from the wall clock's now. Thus
        ``now + 10 s`` means ten seconds even after a clock move. In mode ``real``, the difference between the
        clocks is known exactly. In the other modes, and after a step of the wall clock, the difference is
        measured, and the result is rounded up to whole milliseconds.
        """
        measured_us = self.now_us() - self._wall()
        if self.rate != 1 or abs(measured_us - self._ahead_us) > _DRIFT_US:
            moment = this_moment(self._wall, self._ticks)
            measured_us = self._at(moment.steady_us) - moment.wall_us
        if self.rate == 1 and abs(measured_us - self._ahead_us) <= _DRIFT_US:
            return instant_us + self._ahead_us
        return whole_ms_us(instant_us + measured_us)

    def to_wall(self, instant_us: int) -> int:
        """Convert an emulated instant to the wall clock's instant that is equally far from now."""
        return instant_us - self.now_us() + self._wall()


def whole_ms_us(instant_us: int) -> int:
    """Round the instant up to whole milliseconds, so that nothing happens early."""
    return -(-instant_us // US_PER_MS) * US_PER_MS


def check_move(from_us: int, to_us: int) -> None:
    """Raise ClockError unless the move goes forward, and not beyond the year 9999."""
    if to_us < from_us:
        raise ClockError(
            f"the clock can only move forward: it is at {from_us // US_PER_MS} ms, and"
            f" {to_us // US_PER_MS} ms is {format_duration(from_us - to_us)} earlier"
        )
    if to_us > LATEST_US:
        raise ClockError(f"the clock ends with the year 9999, at {LATEST_US // US_PER_MS} ms")


def rate_of(mode: str) -> float:
    """The rate of a valid clock setting, which is 1 for ``real``, 0 for ``manual`` and 60 for ``x60``."""
    return {"real": 1.0, "manual": 0.0}[mode] if mode in ("real", "manual") else float(mode[1:])


class Mark(NamedTuple):
    """The time of a clock with this mode at an instant of the wall clock."""

    mode: str
    wall_us: int
    at_us: int

    def now_us(self, wall_now_us: int) -> int:
        """The current time of the clock if it has continued to run."""
        return self.at_us + int(rate_of(self.mode) * max(wall_now_us - self.wall_us, 0))


def start_instant_us(mode: str, wall_now_us: int, last_us: int, mark: Mark | None) -> int:
    """The time at which a clock starts on a store that was used before.

    ``last_us`` is the latest instant in the store, or 0; ``mark`` is the last run's clock when last set. The
    last run's clock counts as having run until now, so a restart never sets time back, in any mode. A manual
    clock, or a clock with the same rate, starts at the time reached, so messages that were due in two
    emulated hours still are. Other clocks start at the wall clock's time if it is later.
    """
    reached_us = last_us if mark is None else max(last_us, mark.now_us(wall_now_us))
    if mode == "manual":
        return reached_us or wall_now_us - wall_now_us % US_PER_MS
    if mark is not None and rate_of(mark.mode) == rate_of(mode):
        return reached_us
    return max(reached_us, wall_now_us)
