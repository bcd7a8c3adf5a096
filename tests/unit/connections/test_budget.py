"""The memory budget that all connections share."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from mocketmq.connections.budget import FREE_BYTES, Budget

LIMIT = 10 * FREE_BYTES
LARGE = 4 * FREE_BYTES


class Sender:
    """A connection that sends one large frame."""

    def __init__(self, budget: Budget, lacking: int) -> None:
        self.held = 0
        self.frames = 0
        self.incomplete = 0
        self.lacking = lacking
        self.reads = True
        self.aborted = ""
        self._budget = budget

    def regulate(self) -> None:
        self.reads = self._budget.may_read(self)

    def abort(self, why: str) -> None:
        self.aborted = why
        self.stop()

    def send(self, size: int) -> None:
        """Let some bytes of the frame arrive."""
        self.incomplete += size
        self.lacking -= size
        self._account(self.incomplete)

    def complete(self) -> None:
        """Let the rest arrive, so that the request is being processed."""
        self.frames += 1
        held, self.incomplete, self.lacking = self.held + self.lacking, 0, 0
        self._account(held)

    def stop(self) -> None:
        """End the request, because it is answered or its connection is closed."""
        self.incomplete = self.lacking = 0
        self._account(0)
        self._budget.leave(self)

    def _account(self, held: int) -> None:
        self._budget.change(self, held)
        self.regulate()


@pytest.fixture
async def budget() -> AsyncIterator[Budget]:
    """Create a budget inside an event loop, because it needs the loop's timers."""
    budget = Budget(LIMIT)
    yield budget
    assert budget.held == 0
    assert budget._end is None


async def spent(budget: Budget, *lacking: int) -> list[Sender]:
    """Return senders that hold the whole budget; the first sender waited first."""
    senders = [Sender(budget, each + LARGE) for each in lacking]
    for sender in senders:
        sender.send(LARGE)
    assert budget.is_spent
    for sender in senders:
        sender.regulate()
    return senders


async def test_below_the_limit_all_connections_read(budget: Budget) -> None:
    one, two = Sender(budget, 2 * LARGE), Sender(budget, 2 * LARGE)
    one.send(LARGE)
    two.send(LARGE)
    assert (one.reads, two.reads, budget.held, budget.is_spent) == (True, True, 2 * LARGE, False)
    one.stop()
    two.stop()


async def test_at_the_limit_one_connection_reads_at_a_time_the_least_incomplete_first(budget: Budget) -> None:
    one, _, three = senders = await spent(budget, 5_000, 9_000, 7_000)
    assert [sender.reads for sender in senders] == [False, False, True]  # first to find it spent
    three.complete()
    assert [sender.reads for sender in senders] == [True, False, False]
    one.complete()
    assert [sender.reads for sender in senders] == [False, True, False]
    for sender in senders:
        sender.stop()


async def test_turn_covers_one_frame(budget: Budget) -> None:
    *_, three = senders = await spent(budget, 5_000, 9_000, 7_000)
    three.frames += 1  # the next frame has begun to arrive
    three.lacking = 20_000
    three.regulate()
    assert [sender.reads for sender in senders] == [True, False, False]
    for sender in senders:
        sender.stop()


async def test_senders_of_many_requests_wait_for_their_own_answers(budget: Budget) -> None:
    senders = await spent(budget, 5_000, 9_000, 7_000)
    small = Sender(budget, 100)
    reads = []
    for size in (FREE_BYTES, 1):
        small.send(size)
        reads.append(small.reads)
    busy = Sender(budget, FREE_BYTES + 1)
    busy.complete()
    reads.append(busy.reads)
    budget.change(busy, FREE_BYTES)
    busy.regulate()
    reads.append(busy.reads)
    assert reads == [True, False, False, True]
    for sender in (*senders, small, busy):
        sender.stop()


async def test_below_the_limit_again_all_connections_read(budget: Budget) -> None:
    one, two, three = senders = await spent(budget, 5_000, 9_000, 7_000)
    two.stop()
    assert not budget.is_spent
    assert [sender.reads for sender in senders] == [True, True, True]
    one.stop()
    three.stop()


async def test_connection_not_using_its_turn_is_closed(budget: Budget) -> None:
    budget.turn_s = 0.0
    one, two, three = senders = await spent(budget, 5_000, 9_000, 7_000)
    hog = Sender(budget, LIMIT)
    budget.change(hog, LIMIT)
    while not (one.aborted and two.aborted and three.aborted):  # noqa: ASYNC110 - timers set no event
        await asyncio.sleep(0)
    assert {sender.aborted for sender in senders} == {
        "its incomplete frame holds memory that other connections need"
    }
    assert not hog.aborted
    budget.change(hog, 0)


async def test_a_turn_that_was_used_ends_quietly(budget: Budget) -> None:
    budget.turn_s = 0.0
    senders = await spent(budget, 5_000, 9_000, 7_000)
    for sender in senders:
        sender.stop()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(sender.aborted for sender in senders)
