import pytest

from mocketmq.broker.registry.statistics import DAY_US, HOUR_US, MINUTE_US, STEPS, TURN_S, Meter, Statistics
from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.store.queue import Queue

TURN_US = int(TURN_S) * US_PER_S
ORDERS = Queue(1, "orders", 0)


class Now:
    """Real time that the test controls."""

    def __init__(self) -> None:
        self.us = 7 * DAY_US + DAY_US // 2
        self.statistics = Statistics(lambda: self.us, lambda: self.us)

    async def pass_turns(self, turns: int) -> None:
        """Let ``count`` intervals of ten seconds pass, each with a turn at its end."""
        for _ in range(turns):
            self.us += TURN_US
            await self.statistics.turn()

    def put(self, messages: int, took_us: int = 0) -> None:
        self.statistics.stored([(ORDERS, messages, 100 * messages)], took_us)

    def sums(self) -> tuple[int, ...]:
        """Return the sums of the last minute, hour and day."""
        meter = self.statistics.topics["orders"]
        return tuple(
            self.statistics.window(meter, span_us).added.messages for span_us in (MINUTE_US, HOUR_US, DAY_US)
        )


@pytest.fixture
async def now() -> Now:
    now = Now()
    await now.statistics.turn()
    return now


async def test_the_current_moment_counts(now: Now) -> None:
    now.put(5)
    assert now.sums() == (5, 5, 5)
    assert now.statistics.put.totals == (5, 500, 5, 0)


async def test_last_minute_forgets_after_a_minute(now: Now) -> None:
    now.put(5)
    await now.pass_turns(6)
    now.put(2)
    assert now.sums() == (7, 7, 7)  # the window begins at the sample before it
    await now.pass_turns(2)
    assert now.sums() == (2, 7, 7)
    await now.pass_turns(6)
    assert now.sums() == (0, 7, 7)


async def test_last_hour_and_day_forget_in_time(now: Now) -> None:
    now.put(5)
    await now.pass_turns(70 * 6)
    now.put(1)
    assert now.sums() == (1, 1, 6)
    await now.pass_turns(29 * 60 * 6)
    assert now.sums() == (0, 0, 0)


async def test_window_spans_its_length_or_a_step_more(now: Now) -> None:
    """Each turn has one message, so the sum gives the length of the window."""
    for _ in range(29 * 60 * 6):
        now.put(1)
        await now.pass_turns(1)
    for span_us, found in zip((MINUTE_US, HOUR_US, DAY_US), now.sums(), strict=True):
        turns = span_us // TURN_US
        assert turns <= found <= turns * (STEPS + 1) / STEPS
        window = now.statistics.window(now.statistics.topics["orders"], span_us)
        assert window.per_second(window.added.messages) == pytest.approx(1 / TURN_S)


async def test_rate_of_a_young_meter_covers_its_age(now: Now) -> None:
    now.us += 20 * US_PER_S
    now.put(40)
    window = now.statistics.window(now.statistics.put, HOUR_US)
    assert (window.added.messages, window.per_second(window.added.messages)) == (40, 2.0)


async def test_rate_at_the_start_covers_one_second() -> None:
    now = Now()
    now.put(3)
    window = now.statistics.window(now.statistics.put, MINUTE_US)
    assert window.per_second(window.added.messages) == 3.0


async def test_meter_keeps_a_bounded_number_of_samples(now: Now) -> None:
    now.put(1)
    await now.pass_turns(5 * 60 * 6)
    meter = now.statistics.topics["orders"]
    assert [len(notes) for notes, _ in meter._spans()] == [1, 1, 1]
    for _ in range(29 * 60 * 6):
        now.put(1)
        await now.pass_turns(1)
    assert all(len(notes) <= STEPS + 2 for notes, _ in meter._spans())


async def test_daily_counts_are_kept_at_each_midnight(now: Now) -> None:
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


async def test_deleted_keys_are_forgotten(now: Now) -> None:
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
