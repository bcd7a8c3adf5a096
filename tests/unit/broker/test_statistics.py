import pytest

from mocketmq.broker.registry.statistics import DAY_US, HOUR_US, MINUTE_US, STEPS, TURN_S, Meter, Statistics
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.store.queue import Queue

TURN_US = int(TURN_S) * US_PER_S
ORDERS = Queue(1, "orders", 0)


class Now:
    """Real time, as the test says."""

    def __init__(self) -> None:
        self.us = 7 * DAY_US + DAY_US // 2
        self.statistics = Statistics(lambda: self.us, lambda: self.us)

    async def pass_turns(self, turns: int) -> None:
        """Let so many times ten seconds pass, each with its turn at the end."""
        for _ in range(turns):
            self.us += TURN_US
            await self.statistics.turn()

    def put(self, messages: int, took_us: int = 0) -> None:
        self.statistics.stored([(ORDERS, messages, 100 * messages)], took_us)

    def sums(self) -> tuple[int, ...]:
        """Of the last minute, hour and day."""
        meter = self.statistics.topics["orders"]
        return tuple(
            self.statistics.window(meter, span_us).added.messages for span_us in (MINUTE_US, HOUR_US, DAY_US)
        )


@pytest.fixture
async def now() -> Now:
    now = Now()
    await now.statistics.turn()
    return now


async def test_what_was_put_this_moment_counts(now: Now) -> None:
    now.put(5)
    assert now.sums() == (5, 5, 5)
    assert now.statistics.put.totals == (5, 500, 5, 0)


async def test_a_minute_later_it_is_no_longer_of_the_last_minute(now: Now) -> None:
    now.put(5)
    await now.pass_turns(6)
    now.put(2)
    assert now.sums() == (7, 7, 7)  # the window begins with the note before it
    await now.pass_turns(2)
    assert now.sums() == (2, 7, 7)
    await now.pass_turns(6)
    assert now.sums() == (0, 7, 7)


async def test_an_hour_and_a_day_later(now: Now) -> None:
    now.put(5)
    await now.pass_turns(70 * 6)
    now.put(1)
    assert now.sums() == (1, 1, 6)
    await now.pass_turns(29 * 60 * 6)
    assert now.sums() == (0, 0, 0)


async def test_every_window_is_its_span_long_or_a_step_more(now: Now) -> None:
    """With a message in each turn, its sum tells how long it is."""
    for _ in range(29 * 60 * 6):
        now.put(1)
        await now.pass_turns(1)
    for span_us, found in zip((MINUTE_US, HOUR_US, DAY_US), now.sums(), strict=True):
        turns = span_us // TURN_US
        assert turns <= found <= turns * (STEPS + 1) / STEPS
        window = now.statistics.window(now.statistics.topics["orders"], span_us)
        assert window.per_second(window.added.messages) == pytest.approx(1 / TURN_S)


async def test_a_rate_is_of_the_time_since_the_start_if_that_is_less(now: Now) -> None:
    now.us += 20 * US_PER_S
    now.put(40)
    window = now.statistics.window(now.statistics.put, HOUR_US)
    assert (window.added.messages, window.per_second(window.added.messages)) == (40, 2.0)


async def test_a_rate_of_the_very_start_is_of_a_second() -> None:
    now = Now()
    now.put(3)
    window = now.statistics.window(now.statistics.put, MINUTE_US)
    assert window.per_second(window.added.messages) == 3.0


async def test_an_idle_meter_notes_nothing_and_a_busy_one_a_bounded_number_of_times(now: Now) -> None:
    now.put(1)
    await now.pass_turns(5 * 60 * 6)
    meter = now.statistics.topics["orders"]
    assert [len(notes) for notes, _ in meter._spans()] == [1, 1, 1]
    for _ in range(29 * 60 * 6):
        now.put(1)
        await now.pass_turns(1)
    assert all(len(notes) <= STEPS + 2 for notes, _ in meter._spans())


async def test_mornings_are_those_of_days(now: Now) -> None:
    now.put(5)
    await now.pass_turns(12 * 60 * 6)
    assert now.statistics.daily == (0, 5, 0, 0)
    now.put(1)
    await now.pass_turns(24 * 60 * 6)
    assert now.statistics.daily == (5, 6, 0, 0)


async def test_the_time_of_a_commit_counts_for_all_its_messages(now: Now) -> None:
    for took_ms, messages in ((0, 1), (1, 2), (9, 3), (10, 4), (9_999, 5), (60_000, 6)):
        now.put(messages, took_ms * US_PER_MS)
    assert now.statistics.put_times == [1, 5, 4, 0, 0, 0, 0, 0, 0, 0, 0, 5, 6]
    assert now.statistics.longest_put_us == 60_000 * US_PER_MS


async def test_what_is_gone_is_forgotten(now: Now) -> None:
    statistics = now.statistics
    now.put(1)
    for topic in ("orders", "bills"):
        for group in ("a", "b"):
            statistics.gave_back(topic, group)
            statistics.groups[topic, group] = Meter()
    statistics.forget_topic("orders")
    statistics.forget_group("b")
    statistics.forget_topic("never there")
    assert not statistics.topics
    assert list(statistics.groups) == list(statistics.given_back) == [("bills", "a")]
