"""Move the clock for a client: by a duration, to an instant, or to the next due message."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from mocketmq.broker.inspection.pending import PendingMessages
from mocketmq.errors import ClockError
from mocketmq.schedule.timer import Timer
from mocketmq.store.counters import arrive
from mocketmq.store.store import Store
from mocketmq.to_its_end import to_its_end


class ClockMove(NamedTuple):
    """What a move did, in emulated microseconds; ``next_due_us`` is that of the next delayed message."""

    from_us: int
    now_us: int
    fired: int
    next_due_us: int | None


class ClockMover:
    """Moves the clock. Every move is recorded in the store as part of the ``run``."""

    def __init__(self, store: Store, run: int, timer: Timer, pending: PendingMessages) -> None:
        self._timer = timer
        self._pending = pending
        self._arrive = partial(arrive, store, run)

    async def advance(self, by_us: int) -> ClockMove:
        """Move the clock forward by a duration; returns when everything on the way is delivered.

        Raises ClockError for a move backwards, StoreUnavailableError when a delivery could not be stored.
        """
        return await self._move(lambda now_us: now_us + by_us)

    async def move_to(self, instant_us: int) -> ClockMove:
        """Move the clock to an instant. As ``advance``."""
        return await self._move(lambda _: instant_us)

    async def move_to_next(self) -> ClockMove:
        """Move the clock to the due time of the next delayed message. As ``advance``."""

        def target(now_us: int) -> int:
            due_us = self._pending.next_due_us
            if due_us is None:
                raise ClockError("nothing is pending, so there is no next due time to move the clock to")
            return max(now_us, due_us)

        return await self._move(target)

    async def _move(self, target: Callable[[int], int]) -> ClockMove:
        """Runs to its end even if the caller is cancelled: the clock must not stay behind what it fired."""
        move = await to_its_end(self._timer.move(target, self._arrive))
        return ClockMove(*move, self._pending.next_due_us)
