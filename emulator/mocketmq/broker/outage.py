"""Simulated outages: closes the broker's or the name server's ports while a fault rule is active.

The port of the JSON API stays open, because that is where rules are ended. Its requests for messages are cut
off instead (``faults/fault.py``).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

from msgspec import UNSET

from mocketmq.clock import LATEST_US, US_PER_S, wall_us
from mocketmq.errors import ListenError
from mocketmq.faults.fault import Fault
from mocketmq.faults.faults import Faults
from mocketmq.faults.rule import Absent
from mocketmq.gate import Gate
from mocketmq.schedule.due import Due, DueNow
from mocketmq.store.store import Store
from mocketmq.store.writer import Batch

log = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""Real seconds before another try to listen on a port that was refused."""


class _Place(NamedTuple):
    absent: Absent
    door: str
    gate: Gate


class Outage:
    """A :class:`~mocketmq.schedule.due.DueSource` of the instants at which an outage begins or ends.

    ``changed`` tells the timer that these instants have changed, ``end_polls`` ends all long polls.
    """

    def __init__(
        self, store: Store, faults: Faults, changed: Callable[[], None], end_polls: Callable[[], None]
    ) -> None:
        self._clock = store.clock
        self._faults = faults
        self._changed = changed
        self._end_polls = end_polls
        self._places: list[_Place] = []
        self._back: list[Fault] = []  # faults whose real time is over
        self._seen_us = 0  # what is to be done until then is done
        self._lock = asyncio.Lock()
        self._later: asyncio.TimerHandle | None = None
        self._updating: asyncio.Task[None] | None = None
        faults.once_changed(self.update)

    async def add(self, absent: Absent, door: str, gate: Gate) -> None:
        """Shut this gate, too, whenever a rule says so."""
        self._places.append(_Place(absent, door, gate))
        await self.update()

    async def update(self, at_us: int = 0) -> None:
        """Shut and open gates as the rules want it now, or at an instant to which the clock is just moved."""
        async with self._lock:
            now_us = self._seen_us = max(self._clock.now_us(), at_us)
            active = [fault for fault in self._faults.of_outages if fault.state(now_us) == "active"]
            for fault in active:
                if not fault.fired:
                    await self._faults.begin_absence(fault)
                    self._end_polls()
            for fault in self._faults.of_outages:
                if fault.is_back and fault not in self._back:
                    self._back.append(fault)
                    await self._faults.end_absence(fault)
            wait_s = [(back_us - wall_us()) / US_PER_S for fault in active if (back_us := fault.back_wall_us)]
            for place in self._places:
                if any(_shuts(fault, place) for fault in active):
                    if not place.gate.is_shut:
                        await place.gate.shut()
                elif place.gate.is_shut and not await _reopened(place.gate):
                    wait_s.append(RETRY_S)
            if self._later is not None:
                self._later.cancel()
            if wait_s:
                self._later = asyncio.get_running_loop().call_later(max(min(wait_s), 0), self._update_soon)
            self._changed()

    def _update_soon(self) -> None:
        self._updating = asyncio.create_task(self.update())

    def close(self) -> None:
        """Open nothing any more."""
        if self._later is not None:
            self._later.cancel()
        if self._updating is not None:
            self._updating.cancel()

    def _instants_us(self) -> list[int]:
        """When somebody goes away or is back, by the emulated clock."""
        ends = {end for fault in self._faults.of_outages for end in (fault.from_us, fault.to_us)}
        return sorted(end for end in ends if self._seen_us < end <= LATEST_US)

    def next_due_us(self) -> int | None:
        """The next such instant."""
        return next(iter(self._instants_us()), None)

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:  # noqa: ARG002 - one at a time
        """Go as far as the next instant, and do what is to be done there."""
        reached_us: list[int] = []
        yield partial(self._due_now, self._instants_us(), reached_us)
        for at_us in reached_us:
            await self.update(at_us)

    def _due_now(self, instants_us: list[int], reached_us: list[int]) -> Iterator[Due]:
        for number, instant_us in enumerate(instants_us):
            reach = partial(_reach, reached_us, instant_us)
            yield Due(instant_us, None if number else reach)


def _reach(reached_us: list[int], instant_us: int, batch: Batch) -> None:
    batch.on_commit(partial(reached_us.append, instant_us))


def _shuts(fault: Fault, place: _Place) -> bool:
    return fault.rule.do == place.absent and fault.rule.door in (UNSET, place.door)


async def _reopened(gate: Gate) -> bool:
    try:
        await gate.reopen()
    except ListenError as error:
        log.error("%s; trying until it can", error)
        return False
    return True
