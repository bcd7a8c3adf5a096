"""The timer: everything in the order of its due time, whichever source it comes from, and nothing early."""

import asyncio
from collections.abc import Callable

import pytest

from mocketmq.clock import Clock
from mocketmq.errors import ClockError, StoreUnavailableError
from mocketmq.schedule import timer as timer_module
from mocketmq.schedule.timer import Arrive, Fired, Timer

NOW_US = 1_700_000_000_000_000


class Source:
    """Due at some instants; fires at most two at a time and notes when."""

    def __init__(self, name: str, clock: Clock, log: list[tuple[str, int]], *due_us: int) -> None:
        self.name, self.clock, self.log = name, clock, log
        self.due_us = [NOW_US + due_us for due_us in due_us]
        self.is_read = True
        self.failures = 0
        self.done = asyncio.Event()

    def next_due_us(self) -> int | None:
        return min(self.due_us, default=None) if self.is_read else 0

    async def fire(self, until_us: int) -> Fired:
        self.is_read = True
        if self.failures:
            self.failures -= 1
            raise StoreUnavailableError("no space left")
        due = sorted(due_us for due_us in self.due_us if due_us <= until_us)[:2]
        for due_us in due:
            self.due_us.remove(due_us)
            self.log.append((self.name, due_us - NOW_US))
        if not self.due_us:
            self.done.set()
        return Fired(len(due), due[-1] if due else until_us)


def arriving(clock: Clock) -> Arrive:
    async def arrive(_from_us: int, to_us: int, is_clear: Callable[[], bool]) -> bool:
        if is_clear():
            clock.reach(to_us)
            return True
        return False

    return arrive


async def test_a_move_fires_all_sources_in_the_order_of_their_due_times() -> None:
    clock, log = Clock(0, NOW_US), list[tuple[str, int]]()
    timer = Timer(clock)
    timer.add(Source("a", clock, log, 1, 4, 5, 6, 9))
    timer.add(Source("b", clock, log, 2, 3, 7, 8, 11))
    move = await timer.move(lambda now_us: now_us + 10, arriving(clock))
    assert [due_us for _, due_us in log] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert move == (NOW_US, NOW_US + 10, 9)


async def test_the_next_due_time_is_asked_for_when_it_is_known() -> None:
    clock = Clock(0, NOW_US)
    timer = Timer(clock)
    source = Source("a", clock, [], 5)
    source.is_read = False
    timer.add(source)
    move = await timer.move(lambda _: timer.next_due_us() or 0, arriving(clock))
    assert move == (NOW_US, NOW_US + 5, 1)


async def test_a_move_arrives_only_when_nothing_is_due_before() -> None:
    clock, log = Clock(0, NOW_US), list[tuple[str, int]]()
    timer = Timer(clock)
    arrivals: list[tuple[int, int, bool]] = []

    async def arrive(from_us: int, to_us: int, is_clear: Callable[[], bool]) -> bool:
        if not arrivals:
            timer.add(Source("sent meanwhile", clock, log, 3))
        arrivals.append((from_us - NOW_US, to_us - NOW_US, is_clear()))
        return is_clear()

    assert (await timer.move(lambda now_us: now_us + 7, arrive)).fired == 1
    assert arrivals == [(0, 7, False), (0, 7, True)]
    with pytest.raises(ClockError):
        await timer.move(lambda now_us: now_us - 4, arrive)
    assert len(arrivals) == 2


async def test_a_running_timer_fires_by_itself_and_never_early() -> None:
    late_us: list[int] = []

    class Punctual(Source):
        async def fire(self, until_us: int) -> Fired:
            now_us = self.clock.now_us()
            fired = await super().fire(until_us)
            late_us.append(now_us - fired.instant_us)
            return fired

    clock = Clock(1, NOW_US)
    timer = Timer(clock)
    source = Punctual("a", clock, [], 0, 2_000, 5_000)
    timer.add(source)
    timer.start()
    await source.done.wait()
    await timer.close()
    assert [due_us for _, due_us in source.log] == [0, 2_000, 5_000]
    assert min(late_us) >= 0


async def test_something_that_becomes_due_earlier_is_not_slept_over() -> None:
    clock = Clock(1, NOW_US)
    timer = Timer(clock)
    source = Source("a", clock, [], 3_600_000_000)
    timer.add(source)
    timer.start()
    early = Source("b", clock, source.log, 1_000)
    timer.add(early)
    timer.changed()
    await early.done.wait()
    await timer.close()
    assert source.log == [("b", 1_000)]


async def test_what_could_not_be_stored_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(timer_module, "RETRY_S", 0.001)
    clock = Clock(0, NOW_US)
    timer = Timer(clock)
    source = Source("a", clock, [], 0)
    source.failures = 2
    timer.add(source)
    task = timer.start()
    await source.done.wait()
    assert not task.done()
    await timer.close()
    await timer.close()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "no space left" in caplog.text
