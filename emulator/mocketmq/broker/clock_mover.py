"""Moves the clock for clients: by a duration, to an instant, or to the next due message."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from mocketmq.broker.inspection.pending import PendingMessages
from mocketmq.errors import ClockError
from mocketmq.event_loop import run_to_completion
from mocketmq.schedule.timer import Timer
from mocketmq.store.counters import arrive, has_moved
from mocketmq.store.store import Store


class ClockMove(NamedTuple):
    """The result of a move. ``next_due_us`` is the due time of the next delayed message. Emulated times."""

    from_us: int
    now_us: int
    fired: int
    next_due_us: int | None


class ClockMover:
    """Moves the clock. Every move is recorded in the store."""

    def __init__(self, store: Store, timer: Timer, pending: PendingMessages) -> None:
        self._store = store
        self._timer = timer
        self._pending = pending
        self._arrive = partial(arrive, store)

    async def advance(self, by_us: int) -> ClockMove:
        """Move the clock forward by a duration. Returns when every message due by then is delivered.

        Raises ClockError for a move backwards, StoreUnavailableError if a delivery could not be stored.
        """
        return await self._move(lambda now_us: now_us + by_us)

    async def move_to(self, instant_us: int) -> ClockMove:
        """Move the clock to an instant, like ``advance``."""
        return await self._move(lambda _: instant_us)

    async def reach(self, instant_us: int) -> int:
        """Move the clock to an instant, like ``advance``, unless it is past. Return the distance moved."""
        move = await self._move(lambda now_us: max(now_us, instant_us))
        return move.now_us - move.from_us

    async def has_moved(self) -> bool:
        """Whether the clock was moved since the last full reset."""
        return await has_moved(self._store.database)

    async def move_to_next(self) -> ClockMove:
        """Move the clock to the due time of the next delayed message, like ``advance``."""

        def target(now_us: int) -> int:
            due_us = self._pending.next_due_us
            if due_us is None:
                raise ClockError("nothing is pending, so there is no next due time to move the clock to")
            return max(now_us, due_us)

        return await self._move(target)

    async def _move(self, target: Callable[[int], int]) -> ClockMove:
        """Complete the move even if the caller is cancelled, so that the clock never lags fired entries."""
        move = await run_to_completion(self._timer.move(target, self._arrive))
        return ClockMove(*move, self._pending.next_due_us)
