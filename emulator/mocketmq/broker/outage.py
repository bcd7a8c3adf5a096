"""Simulated outages: closes ports while a fault rule is active, and the ports of brokers that are down.

The port of the JSON API stays open, because it is needed to remove rules. Requests about messages at that
port are refused instead (``faults/injector.py``).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET

from mocketmq.clock import LATEST_US, US_PER_S, wall_us
from mocketmq.errors import ListenError
from mocketmq.faults.injector import FaultInjector
from mocketmq.faults.rule import OutageKind
from mocketmq.faults.rule_set import FaultRules
from mocketmq.port_listener import PortListener
from mocketmq.schedule.timer import Due, DueNow
from mocketmq.store.batch import Batch
from mocketmq.store.store import Store

log = logging.getLogger(__name__)

RETRY_S: Final = 1.0
"""Real time between two attempts to reopen a port."""


class _Place(msgspec.Struct, frozen=True):
    kind: OutageKind
    door: str
    listener: PortListener
    broker: str | None
    is_down: Callable[[], bool]
    is_slave: Callable[[], bool]


class Outage:
    """A :class:`~mocketmq.schedule.timer.DueSource` that closes ports when an outage begins and reopens them.

    ``changed`` notifies the timer of new instants. ``end_polls`` ends all long polls.
    """

    def __init__(
        self, store: Store, faults: FaultRules, changed: Callable[[], None], end_polls: Callable[[], None]
    ) -> None:
        self._clock = store.clock
        self._faults = faults
        self._changed = changed
        self._end_polls = end_polls
        self._places: list[_Place] = []
        self._back: list[FaultInjector] = []  # faults whose duration in real time is over
        self._seen_us = 0  # the instant up to which outages have been applied
        self._lock = asyncio.Lock()
        self._later: asyncio.TimerHandle | None = None
        self._updating: asyncio.Task[None] | None = None
        faults.once_changed.append(self.update)

    async def add_listener(
        self,
        kind: OutageKind,
        door: str,
        listener: PortListener,
        broker: str | None,
        is_down: Callable[[], bool] = lambda: False,
        is_slave: Callable[[], bool] = lambda: False,
    ) -> None:
        """Add a port, which is closed in outages of this door, and while its broker ``is_down``.

        ``broker`` is None for a port that does not belong to one broker of the cluster. Outages do not close
        the port of a slave.
        """
        self._places.append(_Place(kind, door, listener, broker, is_down, is_slave))
        await self.update()

    async def update(self, at_us: int = 0) -> None:
        """Close and open ports as brokers and rules require at ``at_us``, or now if that is later."""
        async with self._lock:
            now_us = self._seen_us = max(self._clock.now_us(), at_us)
            active = [fault for fault in self._faults.of_outages if fault.state(now_us) == "active"]
            for fault in active:
                if not fault.fired:
                    await self._faults.begin_outage(fault)
                    self._end_polls()
            for fault in self._faults.of_outages:
                if fault.is_back and fault not in self._back:
                    self._back.append(fault)
                    await self._faults.end_outage(fault)
            wait_s = [(back_us - wall_us()) / US_PER_S for fault in active if (back_us := fault.back_wall_us)]
            for place in self._places:
                if place.is_down() or any(_shuts(fault, place) for fault in active):
                    if not place.listener.is_suspended:
                        await place.listener.suspend()
                elif place.listener.is_suspended and not await _has_resumed(place.listener):
                    wait_s.append(RETRY_S)
            if self._later is not None:
                self._later.cancel()
            if wait_s:
                self._later = asyncio.get_running_loop().call_later(max(min(wait_s), 0), self._update_soon)
            self._changed()

    def _update_soon(self) -> None:
        self._updating = asyncio.create_task(self.update())

    def close(self) -> None:
        """Stop trying to open ports."""
        if self._later is not None:
            self._later.cancel()
        if self._updating is not None:
            self._updating.cancel()

    def _instants_us(self) -> list[int]:
        """The emulated instants at which an outage begins or ends."""
        ends = {end for fault in self._faults.of_outages for end in (fault.from_us, fault.to_us)}
        return sorted(end for end in ends if self._seen_us < end <= LATEST_US)

    def next_due_us(self) -> int | None:
        return next(iter(self._instants_us()), None)

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:  # noqa: ARG002 - one at a time
        """Apply the outages at the next instant."""
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


def _shuts(fault: FaultInjector, place: _Place) -> bool:
    rule = fault.rule
    if place.is_slave():
        return False
    return rule.do == place.kind and rule.door in (UNSET, place.door) and rule.broker in (UNSET, place.broker)


async def _has_resumed(listener: PortListener) -> bool:
    try:
        await listener.resume()
    except ListenError as error:
        log.error("cannot reopen a port after an outage, trying again: %s", error)
        return False
    return True
