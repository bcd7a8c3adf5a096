"""Second directories when the clock moves, and when the broker restarts."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.consuming.receiver import InFlightMessage
from mocketmq.errors import (
    StoreUnavailableError,
)
from mocketmq.message.message_id import Identity
from mocketmq.schedule import timer
from mocketmq.schedule.timer import BATCH
from mocketmq.store.database import Database
from tests.support.api import running_api
from tests.support.brokers import (
    S,
    receive,
    rows,
    running_broker,
    send,
    visible,
)
from tests.support.delayed_files import made
from tests.support.second_directories import (
    HOUR_MS,
    MS,
    in_order_of_delivery,
    listed,
    names_below,
    no_removal_left,
    scheme_of,
    send_in,
    turn_by_hand,
)

# Clock moves


async def test_clock_moves_to_the_next_message_of_both_schemes() -> None:
    async with running_broker() as broker:
        start_us = broker.clock.now_us()
        for delay_ms in (500, 999, 1_001):
            await send_in(broker, delay_ms)
        await send(broker, level=1)
        stops = [(await broker.mover.move_to_next()).now_us - start_us for _ in range(4)]
        assert stops == [500 * MS, 999 * MS, 1_000 * MS, 1_001 * MS]


@pytest.mark.parametrize("is_far_by_level", [True, False])
@pytest.mark.parametrize("is_near_by_level", [True, False])
async def test_a_message_sent_during_a_move_is_not_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_far_by_level: bool, is_near_by_level: bool
) -> None:
    async with running_broker(tmp_path) as broker:
        await (send(broker, "far", level=2) if is_far_by_level else send_in(broker, 5_000, "far"))
        is_sent = False

        async def and_send(real: Callable[..., Awaitable[Any]], *args: object) -> Any:
            """Send a nearer message after the broker chose a far message as the next, before its delivery."""
            nonlocal is_sent
            found = await real(*args)
            if not is_sent:
                is_sent = True
                await (send(broker, "near", level=1) if is_near_by_level else send_in(broker, 1_000, "near"))
            return found

        records, levels = scheme_of(broker).due_records, broker.levels
        if is_far_by_level:
            monkeypatch.setattr(levels, "read_ahead", partial(and_send, levels.read_ahead))
        else:
            monkeypatch.setattr(records, "read", partial(and_send, records.read))
        assert (await broker.mover.advance(10 * S)).fired == 2
        assert await in_order_of_delivery(broker) == ["near", "far"]
    late = rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us <> due_us")
    assert late == []


async def test_move_stops_at_a_failed_write_and_can_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker:
        start_us = broker.clock.now_us()
        await send(broker, "level", level=1)
        for delay_ms in (1_001, 5_000):
            await send_in(broker, delay_ms, str(delay_ms))
        transact = Database.transact

        async def fail_after_the_level(database: Database, statements: Any, *size: Any) -> None:
            if broker.levels.delivered:
                raise StoreUnavailableError("no space left")
            await transact(database, statements, *size)

        with monkeypatch.context() as patch:
            patch.setattr(Database, "transact", fail_after_the_level)
            patch.setattr(timer, "BATCH", 1)
            with pytest.raises(StoreUnavailableError):
                await broker.mover.advance(60 * S)
        assert broker.clock.now_us() == start_us + 1 * S
        assert await listed(broker) == ["1001", "5000"]
        assert (await broker.mover.advance(60 * S)).fired == 2
    late = rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us <> due_us")
    assert late == []


async def test_many_due_messages_take_few_transactions(tmp_path: Path) -> None:
    async with running_broker(tmp_path, delay_sync="never") as broker:
        await asyncio.gather(*(send_in(broker, number + 1) for number in range(4 * BATCH)))
        before = broker.store.writer.commits
        assert (await broker.mover.advance(60 * S)).fired == 4 * BATCH
        assert broker.store.writer.commits - before < 10


# Restarts


async def test_a_manual_clock_and_pending_messages_survive_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for number in range(10):
            await send_in(broker, 1_000 - number, str(number))
        before = await broker.pending.list()
        await broker.mover.advance(990 * MS)
    for _ in range(3):
        async with running_broker(tmp_path) as broker:
            assert await broker.pending.list() == before
            assert broker.pending.next_due_us == before[-1].message.due_us
            await broker.mover.advance(0)
            assert await visible(broker) == []
    async with running_broker(tmp_path) as broker:
        assert (await broker.mover.advance(1 * S)).fired == 10
        assert await in_order_of_delivery(broker) == [str(number) for number in reversed(range(10))]
    late = rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us <> due_us")
    assert late == []


async def test_messages_due_while_the_broker_was_down_are_delivered_at_the_start(tmp_path: Path) -> None:
    async with running_broker(tmp_path, clock="real") as broker:
        for number in range(3):
            await send_in(broker, HOUR_MS - 60_000 * number, str(number))
    async with running_broker(tmp_path, clock="x1000000") as broker:
        found: list[InFlightMessage] = []
        while len(found) < 3:
            found += await receive(broker, wait_s=30, invisible_us=10**9 * S)
        assert await in_order_of_delivery(broker) == ["2", "1", "0"]
    early = rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us < due_us")
    assert early == []


async def test_a_restart_keeps_the_remaining_delay_under_a_moved_real_clock(tmp_path: Path) -> None:
    async with running_broker(tmp_path, clock="real") as broker:
        await broker.mover.advance(40 * 24 * 3_600 * S)
        due_us = (await send_in(broker, HOUR_MS)).stored.due_us
    async with running_broker(tmp_path, clock="real") as broker:
        assert broker.pending.next_due_us == due_us
        assert due_us is not None
        assert due_us - broker.clock.now_us() < 3_600 * S
        moved = await broker.mover.move_to_next()
        assert (moved.fired, broker.schemes.timed().early) == (1, 0)


async def test_lost_store_loses_no_delayed_message(tmp_path: Path) -> None:
    async with running_broker(tmp_path, clock="real") as broker:
        await send_in(broker, HOUR_MS, "waits", topic="deep", queue=3)
    for name in ("mocketmq.db", "mocketmq.db-wal", "mocketmq.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    async with running_broker(tmp_path, clock="real") as broker:
        assert await listed(broker) == ["waits"]
        assert (await broker.mover.advance(3_600 * S)).fired == 1
        [message] = await visible(broker, "deep")
        assert broker.registry.topics.queue(message.queue_key).queue_id == 3


async def test_files_of_another_broker_are_adopted_at_run_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_by_hand(monkeypatch)
    async with running_broker(tmp_path) as broker:
        due_ms = broker.clock.now_us() // MS + 1_000
        foreign = made("foreign", b"foreign", due_ms=due_ms, topic="elsewhere", queue_id=1)
        misnamed = made("misnamed", b"misnamed", due_ms=due_ms + 1, number=8)
        foreign.put(tmp_path / "delay")
        misnamed.put(tmp_path / "delay", f"{foreign.entry.second}/copy of a file")
        await scheme_of(broker).tidy()
        assert await listed(broker) == ["foreign", "misnamed"]
        assert broker.schemes.file_figures().disk_bytes == 2 * 4_096
        assert (await broker.mover.advance(1 * S)).fired == 1
        [message] = await visible(broker, "elsewhere")
        assert (message.store_us, message.unique_key) == (due_ms * MS, "foreign")
        assert (await broker.mover.advance(1 * MS)).fired == 1
        await scheme_of(broker).tidy()
        await no_removal_left(broker)
        await scheme_of(broker).tidy()
        assert (names_below(tmp_path), broker.schemes.file_figures().repeats) == ([], 0)


async def test_a_file_that_a_reset_removes_during_its_adoption_is_not_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_by_hand(monkeypatch)
    async with running_broker(tmp_path) as broker:
        await send_in(broker, 1_000)
        foreign = made("foreign", b"foreign", due_ms=broker.clock.now_us() // MS + 1_000)
        foreign.put(tmp_path / "delay")
        scheme = scheme_of(broker)
        settled = scheme.settled

        async def reset_and_look(numbers: Sequence[int]) -> set[Identity]:
            monkeypatch.setattr(scheme, "settled", settled)
            await broker.reset.all()
            return await settled(numbers)

        monkeypatch.setattr(scheme, "settled", reset_and_look)
        await scheme.tidy()
        assert (broker.schemes.pending, (await broker.mover.advance(2 * S)).fired) == (0, 0)
        await no_removal_left(broker)
        assert names_below(tmp_path) == []


@pytest.mark.parametrize("place", [None, "7/by-hand"])
async def test_largest_file_number_leaves_room_for_new_messages(tmp_path: Path, place: str | None) -> None:
    async with running_broker(tmp_path) as broker:
        due_ms = broker.clock.now_us() // MS + 1_000
    made("largest", b"largest", due_ms=due_ms, number=(1 << 63) - 1).put(tmp_path / "delay", place)
    async with running_broker(tmp_path) as broker:
        for body in ("a", "b"):
            await send_in(broker, 2_000, body)
        assert (await broker.mover.advance(2 * S)).fired == 3
        assert await in_order_of_delivery(broker) == ["largest", "a", "b"]
        assert broker.pending.count == 0


IMPOSSIBLE: list[dict[str, Any]] = [
    {"born_us": 1 << 63},
    {"flag": 10**30},
    {"reconsume_times": -(1 << 63) - 1},
    {"queue_id": 1 << 20},
    {"topic": "no topic's name"},
    {"topic": "%HALF%orders"},
    {"store_host": "nowhere"},
    {"properties": {"a": "\x01"}},
    {"body": b""},
]


@pytest.mark.parametrize("changed", IMPOSSIBLE)
async def test_undeliverable_file_is_quarantined(tmp_path: Path, changed: dict[str, Any]) -> None:
    async with running_api(data=str(tmp_path)) as api:
        now_ms = api.emulator.broker.clock.now_us() // MS
    made(due_ms=now_ms + 1_000, number=now_ms, **changed).put(tmp_path / "delay")
    async with running_api(data=str(tmp_path)) as api:
        await api.send(body="other", delay_ms=1_000)
        listed = (await api.ok("GET", "/v1/delayed"))["messages"]
        assert [one["body"] for one in listed] == ["other"]
        assert (await api.ok("POST", "/v1/clock/next"))["fired"] == 1
        assert [one["body"] for one in await api.receive()] == ["other"]
        state = api.emulator.broker.schemes.file_figures()
        assert (state.quarantined, state.put_aside) == (1, {"header": 1})
        assert api.emulator.broker.schemes.pending == 0
