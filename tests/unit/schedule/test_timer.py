"""The timer delivers everything in order of due time, from any source, and nothing early."""

import asyncio
import errno
import gc
import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from weakref import WeakSet

import pytest

from mocketmq.clock import Clock
from mocketmq.errors import ClockError, StoreUnavailableError
from mocketmq.schedule.timer import BATCH, FORMING_US, RETRY_S, Arrive, Due, DueNow, DueSource, Timer
from mocketmq.store.batch import Batch
from mocketmq.store.database import MEMORY
from mocketmq.store.opening import open_database
from mocketmq.store.writer import Writer
from tests.support.patience import PATIENCE_S

NOW_US = 1_700_000_000_000_000


class Source:
    """A source with given due times that prepares at most two at a time, and records when they fire."""

    def __init__(self, name: str, log: list[tuple[str, int]], *due_us: int) -> None:
        self.name, self.log = name, log
        self.due_us = [NOW_US + due_us for due_us in due_us]
        self.is_read = True
        self.failures = 0
        self.done = asyncio.Event()

    def next_due_us(self) -> int | None:
        return min(self.due_us, default=None) if self.is_read else 0

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
        self.is_read = True
        if self.failures:
            self.failures -= 1
            raise StoreUnavailableError("no space left")
        due = sorted(due_us for due_us in self.due_us if due_us <= until_us)

        def due_now() -> Iterator[Due]:
            yield from (Due(due_us, partial(self.fire, due_us), delivers=1) for due_us in due[:2])
            yield from (Due(due_us, None) for due_us in due[2:])

        yield due_now

    def fire(self, due_us: int, batch: Batch) -> None:
        assert batch.now_us >= due_us
        batch.on_commit(partial(self.fired, due_us))

    def fired(self, due_us: int) -> None:
        self.due_us.remove(due_us)
        self.log.append((self.name, due_us - NOW_US))
        if not self.due_us:
            self.done.set()


@pytest.fixture(autouse=True)
def forming_takes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no busy machine cut a batch short."""
    monkeypatch.setattr("mocketmq.schedule.timer.steady_us", lambda: 0)


@asynccontextmanager
async def timer_of(clock: Clock, *sources: DueSource, retry_s: float = RETRY_S) -> AsyncIterator[Timer]:
    database = await open_database(MEMORY, "full")
    writer = Writer(database, clock, "127.0.0.1:10911", 0, 0)
    timer = Timer(clock, writer, retry_s=retry_s)
    for source in sources:
        timer.add_source(source)
    try:
        yield timer
    finally:
        await timer.close()
        await writer.close()
        await database.close()


def arriving(clock: Clock) -> Arrive:
    async def arrive(_from_us: int, to_us: int, is_clear: Callable[[], bool]) -> bool:
        if is_clear():
            clock.reach(to_us)
            return True
        return False

    return arrive


async def test_a_move_fires_all_sources_in_the_order_of_their_due_times() -> None:
    clock, log = Clock(0, NOW_US), list[tuple[str, int]]()
    async with timer_of(clock, Source("a", log, 1, 4, 5, 6, 9), Source("b", log, 2, 3, 7, 8, 11)) as timer:
        move = await timer.move(lambda now_us: now_us + 10, arriving(clock))
    assert [due_us for _, due_us in log] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert move == (NOW_US, NOW_US + 10, 9)


async def test_alternating_entries_of_two_sources_fire_in_one_batch() -> None:
    clock, log = Clock(0, NOW_US), list[tuple[str, int]]()
    async with timer_of(clock, *(Source(name, log, n, n + 4) for n, name in enumerate("abcd", 1))) as timer:
        await timer.move(lambda now_us: now_us + 10, arriving(clock))
        assert (len(log), timer._writer.commits) == (8, 1)
    assert sorted(log, key=lambda fired: fired[1]) == log


async def test_messages_of_runs_count_towards_the_limit_of_a_batch() -> None:
    clock, log = Clock(0, NOW_US), list[tuple[str, int]]()

    class Runs(Source):
        @asynccontextmanager
        async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
            due = [due_us for due_us in self.due_us if due_us <= until_us]
            yield lambda: (Due(each, partial(self.fire, each), BATCH // 2 + 1) for each in due)

    async with timer_of(clock, Runs("a", log, 1, 2, 3, 4)) as timer:
        move = await timer.move(lambda now_us: now_us + 10, arriving(clock))
        assert (move.fired, timer._writer.commits) == (4 * (BATCH // 2 + 1), 2)


@pytest.mark.parametrize(("took_us", "commits"), [(0, 1), (FORMING_US // 5, 3), (2 * FORMING_US, 12)])
async def test_forming_a_batch_ends_after_a_while(
    monkeypatch: pytest.MonkeyPatch, took_us: int, commits: int
) -> None:
    clock, log = Clock(0, NOW_US), list[tuple[str, int]]()
    monkeypatch.setattr("mocketmq.schedule.timer.steady_us", itertools.count(0, took_us).__next__)

    class Many(Source):
        @asynccontextmanager
        async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
            due = [due_us for due_us in self.due_us if due_us <= until_us]
            yield lambda: (Due(each, partial(self.fire, each), delivers=1) for each in due)

    async with timer_of(clock, Many("a", log, *range(1, 13))) as timer:
        move = await timer.move(lambda now_us: now_us + 20, arriving(clock))
        assert (move.fired, timer._writer.commits) == (12, commits)
    assert [due_us for _, due_us in log] == [*range(1, 13)]


async def test_source_becoming_due_in_a_batch_is_not_skipped() -> None:
    clock, log = Clock(0, NOW_US), list[tuple[str, int]]()
    late = Source("late", log, 3)

    class Slow(Source):
        @asynccontextmanager
        async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
            async with super().firing(until_us) as due_now:
                if not late.due_us:
                    late.due_us.append(NOW_US + 3)
                yield due_now

    late.due_us.clear()
    async with timer_of(clock, Slow("slow", log, 2, 4), late) as timer:
        await timer.move(lambda now_us: now_us + 10, arriving(clock))
    assert log[:3] == [("slow", 2), ("late", 3), ("slow", 4)]


async def test_an_unreadable_source_does_not_delay_the_others() -> None:
    clock, log = Clock(0, NOW_US), list[tuple[str, int]]()
    broken, other = Source("broken", log, -2), Source("other", log, -1, 0)
    broken.failures = 1_000_000
    async with timer_of(clock, broken, other) as timer:
        timer.start()
        await other.done.wait()
        assert log == [("other", -1), ("other", 0)]
        with pytest.raises(StoreUnavailableError):
            await timer.move(lambda now_us: now_us + 10, arriving(clock))


class Body:
    """Stands for the body of a prepared message."""


async def test_a_failed_source_keeps_no_messages_of_the_others_in_memory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("CRITICAL")  # pytest keeps the errors of log records
    bodies = WeakSet[Body]()

    class Prepared(Source):
        @asynccontextmanager
        async def firing(self, until_us: int) -> AsyncIterator[DueNow]:
            async with super().firing(until_us) as due_now:
                body = Body()
                bodies.add(body)
                yield partial(lambda _body: due_now(), body)

    clock, log = Clock(0, NOW_US), list[tuple[str, int]]()
    broken, other = Source("broken", log, -2), Prepared("other", log, -1)
    broken.failures = 1_000_000
    gc.disable()
    try:
        async with timer_of(clock, broken, other) as timer:
            timer.start()
            await other.done.wait()
            await timer.close()
            assert (len(log), len(bodies)) == (1, 0)
    finally:
        gc.enable()


async def test_the_timer_sleeps_until_the_next_known_due_time() -> None:
    clock = Clock(0, NOW_US)
    source = Source("a", [], 5)
    source.is_read = False
    async with timer_of(clock, source) as timer:
        move = await timer.move(lambda _: timer.next_due_us() or 0, arriving(clock))
    assert move == (NOW_US, NOW_US + 5, 1)


async def test_move_ends_after_everything_due_before_it() -> None:
    clock, log = Clock(0, NOW_US), list[tuple[str, int]]()
    arrivals: list[tuple[int, int, bool]] = []

    async def arrive(from_us: int, to_us: int, is_clear: Callable[[], bool]) -> bool:
        if not arrivals:
            timer.add_source(Source("sent meanwhile", log, 3))
        arrivals.append((from_us - NOW_US, to_us - NOW_US, is_clear()))
        return is_clear()

    async with timer_of(clock) as timer:
        assert (await timer.move(lambda now_us: now_us + 7, arrive)).fired == 1
        assert arrivals == [(0, 7, False), (0, 7, True)]
        with pytest.raises(ClockError):
            await timer.move(lambda now_us: now_us - 4, arrive)
    assert len(arrivals) == 2


async def test_running_timer_is_never_early() -> None:
    late_us: list[int] = []

    class Punctual(Source):
        def fired(self, due_us: int) -> None:
            late_us.append(clock.now_us() - due_us)
            super().fired(due_us)

    clock = Clock(1, NOW_US)
    source = Punctual("a", [], 0, 2_000, 5_000)
    async with timer_of(clock, source) as timer:
        timer.start()
        await source.done.wait()
    assert [due_us for _, due_us in source.log] == [0, 2_000, 5_000]
    assert min(late_us) >= 0


async def test_an_earlier_due_time_wakes_the_timer() -> None:
    clock = Clock(1, NOW_US)
    source = Source("a", [], 3_600_000_000)
    async with timer_of(clock, source) as timer:
        timer.start()
        early = Source("b", source.log, 1_000)
        timer.add_source(early)
        timer.changed()
        await early.done.wait()
    assert source.log == [("b", 1_000)]


async def test_a_failed_batch_is_retried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Source("a", [], 0)
    source.failures = 2
    async with timer_of(Clock(0, NOW_US), source, retry_s=0.001) as timer:
        task = timer.start()
        await source.done.wait()
        assert not task.done()
        await timer.close()
        await timer.close()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "no space left" in caplog.text


async def test_a_due_time_that_cannot_be_read_is_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    class Unreadable(Source):
        def next_due_us(self) -> int | None:
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().next_due_us()

    source = Unreadable("a", [], 0)
    source.failures = 2
    async with timer_of(Clock(0, NOW_US), source, retry_s=0.001) as timer:
        task = timer.start()
        async with asyncio.timeout(PATIENCE_S):
            await source.done.wait()
        assert not task.done()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert os.strerror(errno.EIO) in caplog.text
