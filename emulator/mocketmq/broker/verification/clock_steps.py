"""Moves the clock during a wait, step by step: to each instant that one of its messages waits for.

Under a manual clock, a message that always fails becomes a dead letter only if the clock is moved to each of
its retries, and if the consumer gets real time to fail in between. The clock moves at once when all messages
wait only for the clock. While a consumer has a message, or could take one, the clock moves only after a pause
without any change. Such a move may also end the invisible time of a hanging consumer's message.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from operator import ne
from typing import Final, TypeVar

import msgspec

from mocketmq.broker.consuming.polls import ANYTHING, Polls
from mocketmq.broker.verification.group_status import GroupState, GroupStatus
from mocketmq.broker.verification.sent_messages import Identity
from mocketmq.clock import Clock
from mocketmq.duration import format_duration

T = TypeVar("T")

Reach = Callable[[int], Awaitable[int]]
"""Moves the clock to an instant, unless the clock has passed it. Returns the distance moved."""

MAX_STEPS: Final = 1_000
_BY_CLOCK: Final = (GroupState.TO_BE_RETRIED, GroupState.POSTPONED, GroupState.IN_FLIGHT)
"""States that end at a known instant of the clock."""
_WITH_CONSUMERS: Final = (GroupState.IN_FLIGHT, GroupState.NOT_TAKEN, GroupState.TO_BE_REDELIVERED)


class Advance(msgspec.Struct, frozen=True):
    """How far a wait may move the clock in total, and the real time without any change before a move."""

    by_us: int
    pause_s: float


class AwaitedMessage(msgspec.Struct, frozen=True):
    """A message that has not reached a wanted stage, with its due time or, once delivered, its statuses."""

    identity: Identity
    due_us: int | None
    statuses: tuple[tuple[str, GroupStatus], ...] = ()

    def next_us(self, now_us: int) -> int | None:
        """The next instant after ``now_us`` at which the message's state changes."""
        untils = [
            self.due_us,
            *(status.until_us for _, status in self.statuses if status.state in _BY_CLOCK),
        ]
        return _first(until_us for until_us in untils if until_us is not None and until_us > now_us)

    @property
    def is_with_consumers(self) -> bool:
        """Whether a consumer has the message, or could take it."""
        return self.due_us is None and any(status.state in _WITH_CONSUMERS for _, status in self.statuses)


class Steps:
    """The clock moves of one wait."""

    def __init__(self, clock: Clock, reach: Reach, polls: Polls, advance: Advance) -> None:
        self.count = 0
        self.moved_us = 0
        self._is_over_limit = False
        self._clock = clock
        self._reach = reach
        self._polls = polls
        self._advance = advance

    async def wait_for(
        self,
        look: Callable[[], Awaitable[tuple[T, Sequence[AwaitedMessage]]]],
        wait_s: float,
        is_over: Callable[[T], bool],
    ) -> T:
        """Like :meth:`Polls.wait_for` on any change, but move the clock whenever the messages wait for it."""
        loop, ended = asyncio.get_running_loop(), self._polls.endings
        end_s = loop.time() + wait_s
        found = await look()
        while not is_over(found[0]) and (left_s := end_s - loop.time()) > 0 and self._polls.endings == ended:
            before, waiting = found, found[1]
            now_us = self._clock.now_us()
            next_us = _first(us for one in waiting if (us := one.next_us(now_us)) is not None)
            is_idle = not any(one.is_with_consumers for one in waiting)
            is_allowed = next_us is not None and self._allows(next_us - now_us)
            if is_idle and next_us is not None and not is_allowed:
                break
            if not (is_idle and is_allowed):
                pause_s = min(self._advance.pause_s, left_s) if is_allowed else left_s
                found = await self._polls.wait_for(look, (ANYTHING,), pause_s, is_enough=partial(ne, before))
            if is_allowed and next_us is not None and found == before:
                self.moved_us += await self._reach(next_us)
                self.count += 1
                found = await look()
        return found[0]

    def _allows(self, by_us: int) -> bool:
        self._is_over_limit = self.count >= MAX_STEPS or self.moved_us + by_us > self._advance.by_us
        return not self._is_over_limit

    def __str__(self) -> str:
        moved = "not moved"
        if self.count:
            steps = f"{self.count} step{'s' if self.count > 1 else ''}"
            moved = f"moved by {format_duration(self.moved_us)} in {steps}"
        if not self._is_over_limit:
            return f"the clock was {moved}"
        if self.count >= MAX_STEPS:
            return f"the clock was {moved}, which is the limit"
        allowed = format_duration(self._advance.by_us)
        return f"the clock was {moved}; the next step would exceed the {allowed} allowed"


def _first(instants: Iterable[int]) -> int | None:
    return min(instants, default=None)
