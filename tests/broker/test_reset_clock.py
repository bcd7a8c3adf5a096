"""A reset may restart the clock at another, even earlier time, which then determines due times."""

from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.clock import wall_us
from mocketmq.errors import ClockError
from mocketmq.instant import format_instant
from tests.support.brokers import (
    TOPIC,
    S,
    acknowledge,
    bodies,
    give_back,
    receive,
    rows,
    running_broker,
    send,
    visible,
)

DAY = 86_400 * S
LATER = 2_000_000_000 * S


async def moved_far(broker: Broker) -> int:
    """Move the clock by days, leave work of each kind open, and return the earlier clock time."""
    start_us = broker.clock.now_us()
    await send(broker, "taken")
    await receive(broker)
    for _ in range(2):
        await broker.mover.advance(30 * DAY)
        await send(broker, "waits", level=18)
        await send(broker, "waits", TIMER_DELAY_MS="3600000")
    await receive(broker)
    return start_us


@pytest.mark.parametrize("begin_us", [None, LATER])
@pytest.mark.parametrize("profile", ["exact", "rocketmq4"])
async def test_later_messages_follow_the_reset_clock(
    tmp_path: Path, begin_us: int | None, profile: str
) -> None:
    async with running_broker(tmp_path, profile=profile) as broker:
        start_us = await moved_far(broker)
        target_us = broker.clock.start_us if begin_us is None else begin_us
        await broker.reset.all(target_us)
        assert broker.clock.start_us == start_us
        assert broker.clock.now_us() == target_us
        assert broker.pending.next_due_us is None
        sent = (await send(broker, "now")).stored
        assert sent.store_us == target_us
        await send(broker, "level", level=4)
        await send(broker, "file", TIMER_DELAY_MS="60000")
        assert (await broker.mover.advance(29 * S)).fired == 0
        assert (await broker.mover.advance(3 * S)).fired == 1
        assert (await broker.mover.advance(26 * S)).fired == 0
        assert (await broker.mover.advance(4 * S)).fired == 1
        if profile == "exact":
            assert [one.store_us - target_us for one in await visible(broker)] == [0, 30 * S, 60 * S]
        taken = await receive(broker)
        assert bodies(taken) == ["now", "level", "file"]
        await give_back(broker, taken[:1])
        assert (await broker.mover.advance(12 * S)).fired == 1
        await acknowledge(broker, await receive(broker))
        await broker.mover.advance(20 * S)
        assert sorted(bodies(await receive(broker))) == ["file", "level"]


async def test_dongwo_scans_follow_the_reset_clock() -> None:
    async with running_broker(profile="dongwo", start_deliver_time="dongwo") as broker:
        await broker.mover.advance(DAY)
        await broker.reset.all(broker.clock.start_us)
        await send(broker, "file", TIMER_DELAY_MS="60000")
        assert (await broker.mover.advance(58 * S)).fired == 0
        assert (await broker.mover.advance(4 * S)).fired == 1


async def test_a_restart_continues_at_the_reset_offsets(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await moved_far(broker)
        await broker.reset.all(LATER)
        await broker.mover.advance(5 * S)
    assert [row["to_us"] for row in rows(tmp_path, "SELECT * FROM clock_moves")] == [
        LATER,
        LATER + 5 * S,
    ]
    async with running_broker(tmp_path) as broker:
        assert broker.clock.now_us() == LATER + 5 * S
        await broker.reset.all()
        assert broker.clock.now_us() == LATER + 5 * S


@pytest.mark.parametrize("mode", ["real", "x60"])
async def test_other_clocks_begin_at_the_wall_clock(mode: str) -> None:
    async with running_broker(clock=mode) as broker:
        await broker.mover.advance(DAY)
        before_us = wall_us()
        await broker.reset.all(broker.clock.start_us)
        assert before_us <= broker.clock.now_us() < before_us + DAY // 2
        await send(broker, "file", TIMER_DELAY_MS="3600000")
        assert (await broker.mover.advance(3_601 * S)).fired == 1


async def test_a_pull_from_before_a_reset_continues_at_the_new_beginning() -> None:
    async with running_broker() as broker:
        for body in ("a", "b"):
            await send(broker, body, queue=0)
        pull: Any = broker.pull.pull
        await pull("audit", TOPIC, 0, 0, 1)
        await broker.reset.all()
        pulled = await pull("audit", TOPIC, 0, 1, 32)
        assert (pulled.status.name, pulled.next_offset, pulled.messages) == ("NO_MATCHED_MESSAGE", 2, [])
        await send(broker, "c", queue=0)
        assert bodies((await pull("audit", TOPIC, 0, 1, 32)).messages) == []
        assert bodies((await pull("audit", TOPIC, 0, pulled.next_offset, 32)).messages) == ["c"]


async def test_reset_clock_never_precedes_its_start() -> None:
    async with running_broker() as broker:
        await send(broker)
        with pytest.raises(ClockError):
            await broker.reset.all(broker.clock.start_us - 1)
        assert len(await visible(broker)) == 1


async def test_a_moved_clock_stays_ahead_after_a_restart_and_a_reset_says_so(tmp_path: Path) -> None:
    async with running_broker(tmp_path, clock="real") as broker:
        await broker.mover.advance(DAY)
    async with running_broker(tmp_path, clock="real") as broker:
        wanted_us = broker.clock.start_us
        with pytest.raises(ClockError) as refused:
            await broker.reset.all(wanted_us)
        assert str(refused.value) == (
            f"the clock cannot go back to {format_instant(wanted_us)}: this run began at"
            f" {format_instant(broker.clock._started_us)};"
            " choose a later instant, or restart with an empty data directory"
        )
