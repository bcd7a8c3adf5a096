"""When each profile checks for due messages and saves its offsets, and what a kill repeats."""

import shutil
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from tests.support.brokers import S, bodies, rows, running_broker, send, visible

MS = 1_000


async def delivered_at_ms(data: Path, *sent_at_ms: int, profile: str = "rocketmq4") -> list[int]:
    """Return when messages of level 1 (one second) are delivered; both times count from the start."""
    async with running_broker(data, profile=profile) as broker:
        start_us = broker.clock.now_us()
        for at_ms in sent_at_ms:
            await broker.mover.move_to(start_us + at_ms * MS)
            await send(broker, level=1)
        await broker.mover.advance(60 * S)
        return [(message.store_us - start_us) // MS for message in await visible(broker)]


async def test_exact_delivers_at_the_due_time(tmp_path: Path) -> None:
    assert await delivered_at_ms(tmp_path, 0, 1, 50, 777, profile="exact") == [1000, 1001, 1050, 1777]


async def test_rocketmq4_delivers_at_its_next_look_each_100_ms(tmp_path: Path) -> None:
    assert await delivered_at_ms(tmp_path, 0, 1, 50, 777, 2000) == [1000, 1100, 1100, 1800, 3000]


async def test_rocketmq4_looks_first_a_second_after_its_start(tmp_path: Path) -> None:
    async with running_broker(tmp_path, profile="rocketmq4") as broker:
        await send(broker, level=1)
        await broker.mover.advance(1 * S - 1)
    async with running_broker(tmp_path, profile="rocketmq4") as broker:
        assert (await broker.mover.advance(1 * S - 1)).fired == 0  # overdue, but not checked yet
        assert (await broker.mover.advance(1)).fired == 1


async def test_rocketmq4_cuts_a_due_time_beyond_the_whole_delay(tmp_path: Path) -> None:
    """correctDeliverTimestamp: a shortened level delivers at once, a lengthened level at the due time."""
    async with running_broker(tmp_path, profile="rocketmq4", levels="1h 1h") as broker:
        await send(broker, "shortened", level=1)
        await send(broker, "lengthened", level=2)
    async with running_broker(tmp_path, profile="rocketmq4", levels="10s 2h") as broker:
        await broker.mover.advance(1 * S)
        assert bodies(await visible(broker)) == ["shortened"]
        await broker.mover.advance(3599 * S)
        assert bodies(await visible(broker)) == ["shortened", "lengthened"]


async def test_rocketmq4_saves_its_offsets_each_ten_seconds(tmp_path: Path) -> None:
    saved = "SELECT next_offset FROM delay_offsets WHERE level = 1"
    async with running_broker(tmp_path, profile="rocketmq4") as broker:
        await send(broker, level=1)
        await broker.mover.advance(10 * S - 1)
        assert len(await visible(broker)) == 1
        assert rows(tmp_path, saved) == []
        await broker.mover.advance(1)
        assert rows(tmp_path, saved) == [{"next_offset": 1}]


async def deliver_ten_one_after_the_other(data: Path, profile: str) -> None:
    async with running_broker(data, profile=profile) as broker:
        for n in range(10):
            await send(broker, str(n), level=1)
            await broker.mover.advance(1500 * MS)
        assert len(await visible(broker)) == 10
        shutil.copytree(data, data / "killed")


async def after_restart(data: Path, profile: str) -> list[str]:
    async with running_broker(data, profile=profile) as broker:
        await broker.mover.advance(60 * S)
        assert broker.pending.count == 0
        return bodies(await visible(broker))


async def test_exact_repeats_nothing_after_a_kill(tmp_path: Path) -> None:
    await deliver_ten_one_after_the_other(tmp_path, "exact")
    assert await after_restart(tmp_path / "killed", "exact") == [str(n) for n in range(10)]


async def test_rocketmq4_repeats_unsaved_deliveries_after_a_kill(tmp_path: Path) -> None:
    await deliver_ten_one_after_the_other(tmp_path, "rocketmq4")
    killed = tmp_path / "killed"
    found = await after_restart(killed, "rocketmq4")
    assert found[:10] == [str(n) for n in range(10)]
    assert found[10:] == ["7", "8", "9"]  # offset saved at 10 s, after seven deliveries
    repeats = Counter(row["parked_offset"] for row in rows(killed, "SELECT parked_offset FROM deliveries"))
    assert sorted(repeats.values()) == [1] * 7 + [2] * 3
    keys = [row["unique_key"] for row in rows(killed, "SELECT unique_key FROM deliveries")]
    assert len(set(keys)) == 10


@pytest.mark.parametrize("profile", ["exact", "rocketmq4"])
async def test_a_clean_stop_repeats_nothing(tmp_path: Path, profile: str) -> None:
    await deliver_ten_one_after_the_other(tmp_path, profile)
    assert await after_restart(tmp_path, profile) == [str(n) for n in range(10)]


async def test_offsets_beyond_the_queue_are_clamped_to_it(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker, level=1)
    with sqlite3.connect(tmp_path / "mocketmq.db") as database:
        database.execute("INSERT INTO delay_offsets VALUES (1, 99), (2, -5)")
    database.close()
    async with running_broker(tmp_path) as broker:
        assert [(s.delay_offset, s.max_offset) for s in broker.levels.states()[:2]] == [
            (1, 1),
            (0, 0),
        ]
        await send(broker, "next", level=1)
        await broker.mover.advance(1 * S)
        assert bodies(await visible(broker)) == ["next"]


async def test_rocketmq4_saves_at_fixed_instants_after_a_quiet_time(tmp_path: Path) -> None:
    saved = "SELECT next_offset FROM delay_offsets WHERE level = 4"
    async with running_broker(tmp_path, profile="rocketmq4") as broker:
        await send(broker, level=4)
        assert (await broker.mover.advance(35 * S)).fired == 1
        assert rows(tmp_path, saved) == []
        await broker.mover.advance(5 * S)
        assert rows(tmp_path, saved) == [{"next_offset": 1}]
