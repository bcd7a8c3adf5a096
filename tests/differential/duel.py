"""Plays a sequence on two brokers at the same time, and returns their differences."""

import asyncio
import itertools
import os
from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple

from tests.differential.cuts import Cut, Reason, is_too_slow
from tests.differential.difference import Difference, differences
from tests.differential.known import Known
from tests.differential.op import CHANGING, Ends, Op, Seen
from tests.differential.operations import Side, side
from tests.differential.player import POLL_S
from tests.support.patience import PATIENCE_S
from tests.support.remoting import ClosedError

DELIVERY_S = 12.0
"""Maximum wait for delayed messages, which is far longer than the longest delay."""
SHRINK_S = 300.0

_runs = itertools.count()


class Duel(NamedTuple):
    """The two brokers, and the plays on them that were cut short."""

    version: str
    """RocketMQ's."""
    theirs: Ends
    ours: Ends
    known: Known
    side: type[Side]
    cut_short: list[Cut]
    patience_s: float = PATIENCE_S
    """Limit in real seconds on repeating a read that differs."""

    async def play(self, ops: Sequence[Op]) -> list[Difference]:
        """Play the operations, and return the differences that no rule explains, up to a cut."""
        run = f"{os.getpid():x}-{next(_runs):06x}"  # none is the beginning of another
        found: list[Difference] = []
        async with side(self.theirs, run, self.side) as theirs, side(self.ours, run, self.side) as ours:
            for op in ops:
                parted = await played(op, theirs, ours, self.known, self.patience_s)
                unknown = [each for each in parted if not self.known.explains(each)]
                if theirs.arrivals.by_chance or ours.arrivals.by_chance:
                    self.cut_short.append(Cut(op, Reason.CHANCE))
                    break
                if any(map(is_too_slow, unknown)):
                    self.cut_short.append(Cut(op, Reason.LATE))
                    break
                found += unknown
                if any(map(self.known.ends, parted)):
                    break
        return found

    async def shrink(self, ops: Sequence[Op], difference: Difference) -> list[Op]:
        """Return the shortest sequence found within a time limit that still shows this kind of difference."""
        kind, until = difference.kind, monotonic() + SHRINK_S
        uncounted = self._replace(cut_short=[])
        left = list(ops)
        while left[-1] != difference.op:  # equal operations may precede it
            left.pop()
        size = len(left) // 2
        while size and monotonic() < until:
            for start in range(len(left) - size, -1, -size):
                fewer = left[:start] + left[start + size :]
                if monotonic() < until and kind in await uncounted._kinds(fewer):
                    left = fewer
            size //= 2
        return left

    async def _kinds(self, ops: Sequence[Op]) -> list[tuple[str, ...]]:
        """Play the operations, and return the kinds of differences; none if an operation lacks another."""
        try:
            return [each.kind for each in await self.play(ops)]
        except AssertionError:
            return []


async def played(
    op: Op, theirs: Side, ours: Side, known: Known, patience_s: float = PATIENCE_S
) -> list[Difference]:
    """Play an operation on both brokers, and return all differences.

    Upstream updates its queues, keys and slaves after its log, so reads are repeated for up to ``patience_s``
    real seconds while an unknown difference remains.
    """
    if op.name == "collect":
        await _delivered(theirs, ours, theirs.real(op.args["topic"]))
    elif op.name in CHANGING:  # so that late messages precede new messages in a queue
        now_s = monotonic()
        for topic in {*theirs.arrivals.overdue(now_s), *ours.arrivals.overdue(now_s)}:
            await _delivered(theirs, ours, topic)
    until = monotonic() + patience_s
    while True:
        parted = differences(op, *await asyncio.gather(_seen(theirs, op), _seen(ours, op)))
        if op.name in CHANGING or monotonic() > until or all(map(known.explains, parted)):
            return parted
        await asyncio.sleep(POLL_S)


async def _seen(player: Side, op: Op) -> Seen:
    try:
        return await player.play(op)
    except ClosedError:
        return {"closed": True}
    except TimeoutError:
        return {"answered": False}


async def _delivered(theirs: Side, ours: Side, topic: str) -> None:
    """Wait until a topic has all its messages on both brokers."""
    until = monotonic() + DELIVERY_S
    while monotonic() < until:
        try:
            if all(await asyncio.gather(theirs.has_all(topic), ours.has_all(topic))):
                break
        except ClosedError:
            break  # the next operation shows which broker closed it
        await asyncio.sleep(POLL_S)
    theirs.arrivals.came(topic)
    ours.arrivals.came(topic)
