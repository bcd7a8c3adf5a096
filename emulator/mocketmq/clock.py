"""The clock, and the only module that asks the system for the time.

One class serves all three modes, because they differ only in how fast emulated time runs against
real time: ``real`` 1, ``manual`` 0, ``xN`` N. Everything else in the emulator is handed a
:class:`Clock` and works in integer microseconds since the epoch (``_us``).

The clock never goes back, unless a reset of everything begins anew. It is anchored to the wall clock once,
when it is made, and runs from there on the operating system's steady clock, so a wall clock that is set back
or forward while the broker runs neither delays nor releases a message. It counts the time that the machine
was suspended.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mocketmq.errors import ClockError

US_PER_MS = 1_000
US_PER_S = 1_000_000
LATEST_US = 253_402_300_799_999_999
"""The last instant of the year 9999, and of the clock."""

_STEADY = getattr(time, "CLOCK_BOOTTIME", None) or time.CLOCK_MONOTONIC
_DRIFT_US = 100 * US_PER_MS
"""The wall clock is slewed all the time; a larger difference is a step."""
_TOGETHER_US = 20
"""Two clocks that are read within so long of each other are read at once."""
_READINGS = 20


def wall_us() -> int:
    """The machine's wall clock, for starts, retention, certificates, and times that clients compare."""
    return time.time_ns() // 1_000


def steady_us() -> int:
    """A clock that never steps and does not stop while the machine is suspended."""
    return time.clock_gettime_ns(_STEADY) // 1_000


class Moment(NamedTuple):
    """One instant by the wall clock and by the steady one."""

    wall_us: int
    steady_us: int


def this_moment(wall: Callable[[], int] = wall_us, steady: Callable[[], int] = steady_us) -> Moment:
    """Read both clocks at once: again if this process had to wait between them, for a CPU or a lock."""
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
    """How long this process has been running, to 10 ms; on systems that do not say, since its imports."""
    try:
        # Field 22, counted from 1, behind a name in parentheses that may hold spaces: ticks after boot.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        return steady_us() - int(fields[19]) * US_PER_S // os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return steady_us() - _imported_us


class Clock:
    """Emulated time: runs ``rate`` times as fast as real time, and can be moved forward.

    It starts at ``start_us`` at the moment ``started``; without that, now.
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
        # At rate 1: how far this clock is ahead of the wall clock, unless that is stepped.
        self._ahead_us = instant_us - moment.wall_us

    @property
    def mode(self) -> str:
        """``real``, ``manual`` or ``xN``, as in the setting."""
        if self.rate == 0:
            return "manual"
        return "real" if self.rate == 1 else f"x{self.rate:.15g}"

    def now_us(self) -> int:
        """The emulated instant. Never decreases, but for :meth:`begin_at`."""
        return self._at(self._ticks()) if self.rate else self._base_us

    def _at(self, ticks: int) -> int:
        elapsed_us = ticks - self._base_ticks
        return self._base_us + (elapsed_us if self.rate == 1 else int(elapsed_us * self.rate))

    def seconds_until(self, instant_us: int) -> float | None:
        """Real seconds until the clock gets to the instant by itself; None if it never does."""
        remaining_us = instant_us - self.now_us()
        if remaining_us <= 0:
            return 0.0
        return remaining_us / self.rate / US_PER_S if self.rate else None

    def reach(self, instant_us: int) -> None:
        """Set the clock forward to the instant, unless it is past it already.

        Fires nothing: the timer does, whose ``move`` calls this.
        """
        ticks = self._ticks()
        moved_us = instant_us - self._at(ticks)
        if moved_us > 0:
            self._base_ticks = ticks
            self._base_us = instant_us
            self._ahead_us += moved_us

    @property
    def start_us(self) -> int:
        """Where a clock begins that nobody has moved: a manual one where it started, others by the wall."""
        return self._wall() if self.rate else self._started_us

    def check_beginning(self, instant_us: int) -> None:
        """Raise ClockError for an instant before the one at which the clock started, or too late."""
        if instant_us < self._started_us:
            raise ClockError(
                f"the clock cannot begin at {instant_us // US_PER_MS} ms: it started at"
                f" {self._started_us // US_PER_MS} ms, and nothing is before that"
            )
        check_move(self._started_us, instant_us)

    def begin_at(self, instant_us: int) -> None:
        """Set the clock to an instant, also back to one: only for a broker in which nothing is left."""
        self._start(instant_us, this_moment(self._wall, self._ticks))

    def from_wall(self, instant_us: int) -> int:
        """The emulated instant for one that a client computed from the machine's wall clock.

        It is as far from the emulated now as the given one is from the wall clock's, so that ``now + 10 s``
        means ten seconds after the clock was moved, too. In mode ``real`` the difference of the two clocks is
        known exactly. In the other modes, and when the wall clock was stepped, it is measured, and the result
        is rounded up to whole milliseconds.
        """
        measured_us = self.now_us() - self._wall()
        if self.rate != 1 or abs(measured_us - self._ahead_us) > _DRIFT_US:
            moment = this_moment(self._wall, self._ticks)
            measured_us = self._at(moment.steady_us) - moment.wall_us
        if self.rate == 1 and abs(measured_us - self._ahead_us) <= _DRIFT_US:
            return instant_us + self._ahead_us
        return whole_ms_us(instant_us + measured_us)


def whole_ms_us(instant_us: int) -> int:
    """The instant in whole milliseconds, rounded up so that nothing becomes early."""
    return -(-instant_us // US_PER_MS) * US_PER_MS


def check_move(from_us: int, to_us: int) -> None:
    """Raise ClockError unless the move goes forward, and not beyond the year 9999."""
    if to_us < from_us:
        raise ClockError(
            f"the clock only moves forward: it is at {from_us // US_PER_MS} ms,"
            f" {to_us // US_PER_MS} ms is {(from_us - to_us) / US_PER_S:.3f} s before that"
        )
    if to_us > LATEST_US:
        raise ClockError(f"the clock ends with the year 9999, at {LATEST_US // US_PER_MS} ms")


def rate_of(mode: str) -> float:
    """The rate that a valid clock setting stands for: ``real`` 1, ``manual`` 0, ``x60`` 60."""
    return {"real": 1.0, "manual": 0.0}[mode] if mode in ("real", "manual") else float(mode[1:])


class Mark(NamedTuple):
    """Where a clock of this mode stood at an instant of the wall clock."""

    mode: str
    wall_us: int
    at_us: int

    def now_us(self, wall_now_us: int) -> int:
        """Where the clock stands now if it has run on since."""
        return self.at_us + int(rate_of(self.mode) * max(wall_now_us - self.wall_us, 0))


def start_instant_us(mode: str, wall_now_us: int, last_us: int, mark: Mark | None) -> int:
    """Where a clock starts on a store that was used before.

    ``last_us`` is the latest instant that the store remembers, 0 if none; ``mark`` is where the last run's
    clock stood when it was last set. That clock counts as having run on until now, so a restart never sets
    time back, whatever the new mode. A clock of the same mode goes on from there, and messages that were
    due in two emulated hours still are; so does a manual one. Others catch up with the wall clock.
    """
    reached_us = last_us if mark is None else max(last_us, mark.now_us(wall_now_us))
    if mode == "manual":
        return reached_us or wall_now_us - wall_now_us % US_PER_MS
    if mark is not None and rate_of(mark.mode) == rate_of(mode):
        return reached_us
    return max(reached_us, wall_now_us)
