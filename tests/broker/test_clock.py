"""The clock of a running broker: its modes, its moves, its state after restarts, and whom a move wakes."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from mocketmq.clock import LATEST_US, wall_us
from mocketmq.errors import ClockError, StoreUnavailableError
from mocketmq.message.message import Message
from mocketmq.message.properties import DELAY
from mocketmq.schedule.timer import BATCH
from tests.support.brokers import (
    TOPIC,
    S,
    bodies,
    receive,
    rows,
    running_broker,
    send,
    visible,
)

# Modes


async def test_real_clock_delivers_by_itself() -> None:
    async with running_broker(clock="real") as broker:
        before_us = wall_us()
        assert before_us - 1 * S < broker.clock.now_us() < wall_us() + 1 * S
        due_us = (await send(broker, level=1)).stored.due_us
        [taken] = await receive(broker, wait_s=30)
        assert due_us
        assert due_us <= taken.message.store_us <= broker.clock.now_us()


async def test_a_scaled_clock_delivers_hours_in_milliseconds() -> None:
    async with running_broker(clock="x1000000") as broker:
        due_us = (await send(broker, level=18)).stored.due_us
        [taken] = await receive(broker, wait_s=30)
        assert due_us
        assert due_us <= taken.message.store_us


async def test_manual_clock_stands_until_moved() -> None:
    async with running_broker() as broker:
        stands_us = broker.clock.now_us()
        assert stands_us % 1_000 == 0
        for level in (1, None, 1):
            await send(broker, level=level)
        assert {m.store_us for m in await visible(broker)} == {stands_us} == {broker.clock.now_us()}


@pytest.mark.parametrize("mode", ["real", "x60"])
async def test_running_clock_can_be_moved(mode: str) -> None:
    async with running_broker(clock=mode) as broker:
        await send(broker, level=18)
        move = await broker.mover.advance(7200 * S)
        assert move.fired == 1
        assert move.now_us - move.from_us >= 7200 * S
        assert broker.clock.now_us() >= move.now_us


# Moves


async def test_clock_moves_by_a_duration_to_an_instant_and_to_the_next() -> None:
    async with running_broker() as broker:
        start_us = broker.clock.now_us()
        for level in (1, 3):
            await send(broker, level=level)
        assert await broker.mover.advance(4 * S) == (start_us, start_us + 4 * S, 1, start_us + 10 * S)
        assert await broker.mover.move_to(start_us + 7 * S) == (
            start_us + 4 * S,
            start_us + 7 * S,
            0,
            start_us + 10 * S,
        )
        assert await broker.mover.move_to_next() == (start_us + 7 * S, start_us + 10 * S, 1, None)
        with pytest.raises(ClockError, match="nothing is pending"):
            await broker.mover.move_to_next()


async def test_move_to_next_expires_receipts_on_its_way() -> None:
    async with running_broker() as broker:
        due_us = (await send(broker, level=3)).stored.due_us
        await send(broker)
        assert len(await receive(broker, invisible_us=5 * S)) == 1
        assert (await broker.mover.move_to_next())[1:] == (due_us, 1, None)
        assert len(await receive(broker, limit=2)) == 2


async def test_the_next_due_time_is_found_behind_any_number_of_cancelled_messages() -> None:
    async with running_broker() as broker:
        await broker.sender.send_batch([Message("other", b"x", {DELAY: "1"}) for _ in range(1_000)])
        due_us = (await send(broker, level=1)).stored.due_us
        await broker.reset.topic("other")
        assert (await broker.mover.move_to_next())[1:] == (due_us, 1, None)


@pytest.mark.parametrize("by_us", [-1, -7200 * S])
async def test_the_clock_never_moves_back(by_us: int) -> None:
    async with running_broker() as broker:
        stands_us = broker.clock.now_us()
        with pytest.raises(ClockError):
            await broker.mover.advance(by_us)
        with pytest.raises(ClockError):
            await broker.mover.move_to(stands_us + by_us)
        assert broker.clock.now_us() == stands_us


async def test_the_clock_ends_with_the_year_9999() -> None:
    async with running_broker() as broker:
        with pytest.raises(ClockError, match="year 9999"):
            await broker.mover.move_to(LATEST_US + 1)
        assert (await broker.mover.move_to(LATEST_US)).now_us == LATEST_US


async def test_deliveries_and_expiries_happen_in_order_of_time() -> None:
    """A message that expires before another is due becomes a dead letter before the other is delivered."""
    async with running_broker() as broker:
        await broker.registry.groups.put("billing", 0, 1)
        await send(broker, "dead at 3 s")
        await receive(broker, invisible_us=3 * S)
        for level, body in ((1, "due at 1 s"), (2, "due at 5 s")):
            await send(broker, body, level=level)
        await broker.mover.advance(60 * S)
        records = [*await visible(broker), *await visible(broker, "%DLQ%billing")]
        assert bodies(sorted(records)[1:]) == ["due at 1 s", "dead at 3 s", "due at 5 s"]
        assert [b.store_us - a.store_us for a, b in pairwise(sorted(records))] == [1 * S, 2 * S, 2 * S]


async def test_waiting_receivers_are_woken_before_a_move_is_answered() -> None:
    async with running_broker() as broker:
        await send(broker, level=1)
        with broker.polls.listening((TOPIC,)) as arrival:
            await broker.mover.advance(1 * S - 1)
            assert not arrival.is_set()
            await broker.mover.advance(1)
            assert arrival.is_set()


async def test_a_move_wakes_a_long_poll() -> None:
    async with running_broker() as broker:
        receiver = asyncio.create_task(receive(broker, wait_s=30))
        await send(broker, level=18)
        await broker.mover.advance(7200 * S)
        assert bodies(await receiver) == ["hello"]


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
async def test_two_hours_with_many_messages_over_18_levels_take_few_transactions(
    tmp_path: Path, count: int
) -> None:
    async with running_broker(tmp_path, durability="normal") as broker:
        for first in range(0, count, 1_000):
            await broker.sender.send_batch(
                [Message(TOPIC, b"%d" % n, {DELAY: str(n % 18 + 1)}) for n in range(first, first + 1_000)]
            )
        before = broker.store.writer.commits
        move = await broker.mover.advance(7200 * S)
        assert (move.fired, move.next_due_us, broker.pending.count) == (count, None, 0)
        assert broker.store.writer.commits - before < 2 * count / BATCH + 18
    counts = rows(
        tmp_path,
        "SELECT level, count(*) AS n, count(DISTINCT parked_offset) AS once FROM deliveries GROUP BY 1",
    )
    assert sum(row["n"] for row in counts) == sum(row["once"] for row in counts) == count
    assert len(counts) == 18
    wrong = rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us <> due_us")
    assert wrong == []


@pytest.mark.interpreted
async def test_move_stops_at_a_failed_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker() as broker:
        start_us = broker.clock.now_us()
        await send(broker, level=1)
        await send(broker, level=3)
        commit = broker.store.writer.commit

        async def failing(_work: object, *, alone: bool, until: str) -> None:
            assert (alone, until) == (True, "visible")
            raise StoreUnavailableError("no space left")

        await broker.mover.advance(1 * S)
        monkeypatch.setattr(broker.store.writer, "commit", failing)
        with pytest.raises(StoreUnavailableError):
            await broker.mover.advance(60 * S)
        assert broker.clock.now_us() == start_us + 1 * S
        monkeypatch.setattr(broker.store.writer, "commit", commit)
        assert (await broker.mover.advance(60 * S)).fired == 1


# Restarts


async def test_a_manual_clock_keeps_its_time_over_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker, level=18)
        stood_us = (await broker.mover.advance(7199 * S)).now_us
    async with running_broker(tmp_path) as broker:
        assert broker.clock.now_us() == stood_us
        assert (await broker.mover.advance(1 * S)).fired == 1


async def test_real_clock_keeps_its_offset_over_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path, clock="real") as broker:
        await send(broker, level=18)
        await broker.mover.advance(3600 * S)
    for _ in range(2):
        async with running_broker(tmp_path, clock="real") as broker:
            before_us = wall_us()
            moved_us = broker.clock.now_us() - 3600 * S
            assert before_us <= moved_us + 1 * S
            assert moved_us < wall_us() + 100 * S
            assert broker.pending.count == 1


async def test_moves_and_runs_are_recorded(tmp_path: Path) -> None:
    for _ in range(2):
        async with running_broker(tmp_path) as broker:
            start_us = broker.clock.now_us()
            await broker.mover.advance(5 * S)
    moves = rows(tmp_path, "SELECT run, from_us, to_us FROM clock_moves ORDER BY move")
    assert moves == [
        {"run": 1, "from_us": start_us - 5 * S, "to_us": start_us},
        {"run": 2, "from_us": start_us, "to_us": start_us + 5 * S},
    ]
    runs = rows(tmp_path, "SELECT run, started_us, clock, profile FROM runs ORDER BY run")
    assert runs == [
        {"run": 1, "started_us": start_us - 5 * S, "clock": "manual", "profile": "exact"},
        {"run": 2, "started_us": start_us, "clock": "manual", "profile": "exact"},
    ]


async def test_messages_due_while_the_broker_was_down_are_delivered_at_the_start(tmp_path: Path) -> None:
    async with running_broker(tmp_path, clock="real", levels="0s 1s") as broker:
        await send(broker, "later", level=2)
    async with running_broker(tmp_path, clock="x1000000") as broker:
        assert bodies(await receive(broker, wait_s=30)) == ["later"]


async def test_a_message_sent_during_a_move_is_delivered_at_its_due_time(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker, level=18)
        for _ in range(20):
            await asyncio.gather(broker.mover.advance(7200 * S), send(broker, level=1), send(broker, level=5))
        await broker.mover.advance(7200 * S)
    late = "SELECT count(*) AS count, sum(delivered_us != due_us) AS late FROM deliveries"
    assert rows(tmp_path, late) == [{"count": 41, "late": 0}]


async def test_the_next_due_time_is_known_from_the_start(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        due_us = (await send(broker, level=7)).stored.due_us
    async with running_broker(tmp_path) as broker:
        assert broker.pending.next_due_us == due_us
        assert broker.levels.states()[6].next_due_us == due_us
