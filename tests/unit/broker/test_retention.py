"""Retention removes old messages by age in real time and by size, but never pending messages."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.pull_status import PullStatus
from mocketmq.broker.removal import retention as retention_module
from mocketmq.broker.removal.retention import Retention
from mocketmq.clock import wall_us
from mocketmq.message.message import Message
from mocketmq.message.properties import DELAY
from mocketmq.store import counters
from tests.support.brokers import (
    GROUP,
    TOPIC,
    S,
    acknowledge,
    bodies,
    receive,
    rows,
    running_broker,
    send,
    visible,
)
from tests.support.patience import PATIENCE_S

HOUR_US = 3600 * S
IMMUNITY_US = 10 * S


class Wall:
    """A wall clock that is some hours ahead."""

    hours = 0.0

    def __call__(self) -> int:
        return wall_us() + int(self.hours * HOUR_US)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    wall = Wall()
    monkeypatch.setattr(retention_module, "wall_us", wall)
    monkeypatch.setattr(counters, "wall_us", wall)
    return wall


async def sweep(broker: Broker, *, age_us: int = 0, max_bytes: int = 0) -> int:
    """Sweep with these limits, and return the number of removed records."""
    retention = Retention(
        broker.store,
        broker.registry,
        broker.consuming_groups,
        broker.schemes,
        age_us=age_us,
        max_bytes=max_bytes,
    )
    return await retention.turn()


async def test_age_counts_in_real_time_despite_clock_moves(wall: Wall) -> None:
    async with running_broker() as broker:
        await send(broker, "old")
        await broker.mover.advance(40 * 24 * HOUR_US)
        assert await sweep(broker, age_us=72 * HOUR_US) == 0
        wall.hours = 10
        await broker.mover.advance(1)
        await send(broker, "new")
        wall.hours = 71
        assert await sweep(broker, age_us=72 * HOUR_US) == 0
        wall.hours = 73
        assert await sweep(broker, age_us=72 * HOUR_US) == 1
        assert bodies(await visible(broker)) == ["new"]


async def test_running_clock_ages_its_messages(wall: Wall) -> None:
    async with running_broker(clock="real") as broker:
        await send(broker)
        await broker.mover.advance(5 * HOUR_US)
        wall.hours = 71
        assert await sweep(broker, age_us=72 * HOUR_US) == 0
        wall.hours = 73
        assert await sweep(broker, age_us=72 * HOUR_US) == 1


async def test_pending_messages_are_never_removed(wall: Wall) -> None:
    async with running_broker() as broker:
        await send(broker, "delivered", level=1)
        await broker.mover.move_to_next()
        await send(broker, "pending", level=18)
        await broker.mover.advance(1)
        wall.hours = 1_000
        assert await sweep(broker, age_us=1) == 2  # the parked record and the delivered record
        assert await sweep(broker, max_bytes=1) == 0
        assert broker.pending.count == 1
        await broker.mover.move_to_next()
        assert bodies(await visible(broker)) == ["pending"]


async def test_half_messages_stay_until_they_are_decided(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        halves = broker.popped_halves
        settled, kept = [
            await halves.prepare(Message(TOPIC, body), IMMUNITY_US) for body in (b"settled", b"kept")
        ]
        await halves.rollback(TOPIC, [settled.handle])
        assert await sweep(broker, max_bytes=1) == 1
    async with running_broker(tmp_path) as broker:
        assert await sweep(broker, max_bytes=1) == 0
        assert (await broker.popped_halves.commit(TOPIC, [kept.handle])).done
        assert bodies(await visible(broker)) == ["kept"]
        assert await sweep(broker, max_bytes=1) == 2


async def test_messages_a_kill_would_redeliver_are_kept() -> None:
    async with running_broker(profile="rocketmq4") as broker:
        await send(broker, level=1)
        await broker.mover.advance(2 * S)
        assert await sweep(broker, max_bytes=1) == 1  # the delivered record, not the parked record
        await broker.mover.advance(10 * S)  # the offset has been saved by now
        assert await sweep(broker, max_bytes=1) == 1


async def test_offsets_and_progress_are_right_afterwards_and_after_a_restart(
    tmp_path: Path, wall: Wall
) -> None:
    async with running_broker(tmp_path) as broker:
        for n in range(4):
            await send(broker, f"old {n}", queue=0)
        acked, taken = await receive(broker, 2)
        await acknowledge(broker, [acked])
        await broker.mover.advance(1)
        await send(broker, "new", queue=0)
        wall.hours = 73
        await broker.mover.advance(1)
        wall.hours = 74
        assert await sweep(broker, age_us=HOUR_US // 2) == 5
        await send(broker, "newest", queue=0)
        pulled = await broker.pull.browse(TOPIC, 0, 0, 10)
        assert (pulled.status, pulled.next_offset, pulled.max_offset) == (PullStatus.OFFSET_TOO_SMALL, 5, 6)
        [place] = [p for p in broker.consuming_groups.get(GROUP).queues.values() if p.queue.queue_id == 0]
        assert place.lag == 1
        assert (await acknowledge(broker, [taken])).failed
        await broker.mover.advance(HOUR_US)
    wall.hours = 0  # the new broker starts at this time, and sweeps by itself
    async with running_broker(tmp_path) as broker:
        assert bodies(await receive(broker)) == ["newest"]
        sent = await send(broker, queue=0)
        assert (sent.stored.log_offset, sent.stored.queue_offset) == (6, 6)


async def test_offsets_continue_after_all_messages_are_removed(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker, level=1, queue=0)
        await broker.mover.move_to_next()
        assert await sweep(broker, max_bytes=1) == 2
    async with running_broker(tmp_path) as broker:
        sent = await send(broker, level=1, queue=0)
        assert (sent.stored.log_offset, sent.stored.queue_offset) == (2, 1)
        await broker.mover.move_to_next()
        assert [message.queue_offset for message in await visible(broker)] == [1]


async def test_removed_messages_leave_no_rows(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for level in (1, 2):
            key = (await send(broker, level=level, KEYS="k")).stored.unique_key
        await broker.pending.cancel(key)
        await broker.mover.move_to_next()
        await acknowledge(broker, await receive(broker))
        await broker.histories.by_key("k")
        assert await sweep(broker, max_bytes=1) == 2
        left = rows(tmp_path, "SELECT log_offset FROM messages")
        assert left == [{"log_offset": 1}]  # cancelled, but the level has not passed it yet
        assert rows(tmp_path, "SELECT parked_offset FROM interventions") == [{"parked_offset": 1}]
        for table in ("deliveries", "receipts"):
            assert rows(tmp_path, f"SELECT * FROM {table}") == []
        assert {row["log_offset"] for row in rows(tmp_path, "SELECT * FROM message_keys")} == {1}


async def test_size_removes_the_oldest_until_it_fits(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for first in range(0, 3_000, 1_000):
            await broker.sender.send_batch(
                [Message(TOPIC, b"x" * 1_000, {}, 0) for _ in range(first, first + 1_000)]
            )
        await broker.sender.send_batch([Message(TOPIC, b"pending", {DELAY: "1"})])
        limit = 2_500_000
        assert await sweep(broker, max_bytes=10 * limit) == 0
        removed = await sweep(broker, max_bytes=limit)
        assert removed in (1_000, 2_000)
        assert len(await visible(broker)) == 3_000 - removed
        assert (await visible(broker))[0].queue_offset == removed
        assert await sweep(broker, max_bytes=limit) == 0
        assert broker.pending.count == 1


async def test_zero_disables_retention() -> None:
    async with running_broker() as broker:
        await send(broker)
        assert await sweep(broker) == 0


async def test_a_wipe_beside_retention_leaves_an_empty_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, brokers=2) as broker:
        await broker.registry.topics.put(TOPIC, 1, 1, 6)
        for body in "abcde":
            await send(broker, body, queue=0)
        name = broker.registry.brokers.names[0]
        await broker.broker_lives.crash(name)
        database, has_read, go = broker.store.database, asyncio.Event(), asyncio.Event()
        read = database.rows

        async def slow_rows(sql: str, *parameters: Any) -> list[Any]:
            found = await read(sql, *parameters)
            if sql.startswith(retention_module._OLDEST):
                has_read.set()
                await go.wait()
            return found

        monkeypatch.setattr(database, "rows", slow_rows)
        end = broker.store.writer.next_log_offset
        sweeping = asyncio.create_task(broker.retention._remove_oldest(end))
        async with asyncio.timeout(PATIENCE_S):
            await has_read.wait()
        monkeypatch.setattr(database, "rows", read)
        await broker.broker_lives.wipe(name)
        await broker.broker_lives.start(name)
        await send(broker, "after", queue=0)
        go.set()
        await sweeping
        assert bodies(await receive(broker)) == ["after"]
    async with running_broker(tmp_path, brokers=2) as broker:
        [queue, *_] = broker.registry.topics.get(TOPIC).queues
        assert (queue.min_offset, queue.next_offset) == (0, 1)
