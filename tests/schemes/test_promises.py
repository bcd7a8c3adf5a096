"""Promises of every delay scheme: never early, never lost, precise to the millisecond, exactly once."""

import asyncio
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.watching.stored_records import FIRST_NUMBER
from mocketmq.errors import NotPendingError
from mocketmq.message.message import Message
from mocketmq.schedule.scheme import PendingFilter
from mocketmq.settings import TimedSchemeName
from mocketmq_compat.delay import entry_table, pending_entries
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.schemes import SCHEMES
from mocketmq_compat.delay.slots import item_places
from tests.support.brokers import TOPIC, S, bodies, rows, running_broker, visible
from tests.support.patience import PATIENCE_S
from tests.support.second_directories import HOUR_MS, MS, in_order_of_delivery, listed, scheme_of, send_in

DELAYS_MS = (
    1,
    2,
    999,
    1_000,
    1_001,
    1_050,
    1_099,
    1_100,
    1_137,
    2_999,
    599_999,
    600_000,
    600_001,
    3 * HOUR_MS,
    71 * HOUR_MS,
)
"""Delays around the boundaries of milliseconds, slots, seconds, ten minutes and hours."""


async def test_each_message_is_delivered_at_its_millisecond(scheme: TimedSchemeName, tmp_path: Path) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        for delay_ms in reversed(DELAYS_MS):
            await send_in(broker, delay_ms, str(delay_ms))
        assert broker.schemes.pending == len(DELAYS_MS)
        start_us = broker.store.clock.now_us()
        for number, delay_ms in enumerate(DELAYS_MS):
            just_before_us = start_us + delay_ms * MS - 1
            if just_before_us > broker.store.clock.now_us():
                await broker.mover.advance(just_before_us - broker.store.clock.now_us())
            assert broker.schemes.delivered == number
            await broker.mover.advance(MS)
            assert broker.schemes.delivered == number + 1
        assert await in_order_of_delivery(broker) == [str(delay_ms) for delay_ms in DELAYS_MS]
        name = broker.schemes.timed().name
        assert broker.schemes.early == broker.schemes.pending == 0
    assert rows(tmp_path, "SELECT DISTINCT scheme FROM deliveries") == [{"scheme": name}]
    assert rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us <> due_us") == []


async def test_pending_messages_survive_restarts_and_are_delivered_once(
    scheme: TimedSchemeName, tmp_path: Path
) -> None:
    for number in range(3):
        async with running_broker(tmp_path, timed_scheme=scheme) as broker:
            for delay_ms in (10_000, 700_000, 5 * HOUR_MS):
                await send_in(broker, delay_ms, f"{number} {delay_ms}")
            assert broker.schemes.pending == 3 * number + 3
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        await broker.mover.advance(700 * S)
        assert broker.schemes.pending == 3
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        await broker.mover.advance(0)  # refuses the delivered messages that a quick stop left
        assert broker.schemes.pending == 3
        await broker.mover.advance(5 * 3_600 * S)
        assert len(set(await in_order_of_delivery(broker))) == len(await visible(broker)) == 9


async def test_the_timer_sleeps_until_the_first_due_time(
    scheme: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three days are 2,592,000 slots of 0.1 s, during which the timer must not wake up."""
    picks: list[int] = []

    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        sent = [await send_in(broker, hours * HOUR_MS) for hours in (40, 3, 71)]
        assert broker.timer.next_due_us() == sent[1].stored.due_us
        timed = broker.schemes.timed()
        firing = timed.firing

        def counted(until_us: int) -> Any:
            picks.append(until_us)
            return firing(until_us)

        monkeypatch.setattr(timed, "firing", counted)  # counts the batches of a clock move
        assert (await broker.mover.advance(72 * HOUR_MS * MS)).fired == 3
        assert len(picks) <= 3


async def test_memory_holds_the_first_pending_messages_alone(scheme: TimedSchemeName, tmp_path: Path) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme, delay_sync="never") as broker:
        engine = scheme_of(broker)
        engine.entries.read_ahead.size = 8
        for number in range(100):
            await send_in(broker, 1_000 + (number * 7) % 50, str(number))
        assert len(engine.entries.read_ahead.entries) <= 2 * engine.entries.read_ahead.size
        assert (await broker.mover.advance(2 * S)).fired == 100
        expected = sorted(range(100), key=lambda number: (number * 7 % 50, number))
        assert await in_order_of_delivery(broker) == [str(number) for number in expected]
    assert rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us <> due_us") == []


async def test_a_full_second_is_delivered_in_order_over_restarts(
    scheme: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_table, "BLOCK", 4)
    monkeypatch.setattr(item_places, "FULL", 8)
    monkeypatch.setattr(pending_entries, "SIZE", 8)
    async with running_broker(tmp_path, timed_scheme=scheme, delay_sync="never") as broker:
        for number in range(200):
            await send_in(broker, 1_000 + number * 7 % 250, str(number))
    expected = sorted(range(200), key=lambda number: (number * 7 % 250, number))
    for move_ms in (1_010, 0, 120):
        async with running_broker(tmp_path, timed_scheme=scheme, delay_sync="never") as broker:
            await broker.mover.advance(move_ms * MS)
            visible = await in_order_of_delivery(broker)
            assert visible == [str(number) for number in expected[: len(visible)]]
            assert len(visible) + broker.schemes.pending == 200
            assert broker.schemes.pending
    async with running_broker(tmp_path, timed_scheme=scheme, delay_sync="never") as broker:
        await broker.mover.advance(S)
        assert await in_order_of_delivery(broker) == [str(number) for number in expected]
        assert broker.schemes.pending == 0
    assert rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us <> due_us") == []


async def test_message_being_delivered_is_still_pending(scheme: TimedSchemeName, tmp_path: Path) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        for _ in range(2):
            await send_in(broker, 1_000)
        timed = broker.schemes.timed()
        before = timed.figures()
        async with broker.timer.lock, timed.firing(broker.clock.now_us() + S):  # then the disk fills up
            assert timed.figures() == before
        assert timed.figures() == before


async def test_cancelled_and_forced_messages_are_settled(scheme: TimedSchemeName, tmp_path: Path) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        for body in ("cancelled", "forced", "kept"):
            await send_in(broker, 900_000, body)
        assert await listed(broker) == ["cancelled", "forced", "kept"]
        cancelled, forced, _ = await broker.schemes.page(-1, 3)
        async with broker.timer.lock:
            await broker.schemes.cancel([cancelled])
            await broker.schemes.force(forced)
            with pytest.raises(NotPendingError):
                await broker.schemes.cancel([cancelled])
        assert await listed(broker) == ["kept"]
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        assert await listed(broker) == ["kept"]
        await broker.mover.advance(900 * S)
        assert bodies(await visible(broker)) == ["forced", "kept"]


async def test_pending_messages_are_found_by_key_number_topic_and_page(
    scheme: TimedSchemeName, tmp_path: Path
) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        sent = [
            await send_in(broker, delay_ms, str(delay_ms), topic=topic)
            for topic, delay_ms in (("a", 9_000_000), ("b", 1_000), ("a", 700_000))
        ]
        schemes = broker.schemes
        [found] = await schemes.find_by_key(sent[2].stored.unique_key)
        assert (found.body, found.due_us) == (b"700000", found.store_us // MS * MS + 700_000 * MS)
        assert await schemes.numbered(found.log_offset) == found
        assert await schemes.numbered(found.log_offset + 1) is None
        assert bodies(await schemes.outside(-1, 9)) == ["9000000", "1000", "700000"]
        assert bodies(await schemes.outside(-1, 9, PendingFilter("a"))) == ["9000000", "700000"]
        assert bodies(await schemes.first_due_outside(2)) == ["1000", "700000"]
        [first] = await schemes.outside(-1, 1)
        assert bodies(await schemes.outside(first.log_offset, 1)) == ["1000"]
        newest, next_before = await schemes.newest_outside(FIRST_NUMBER, 2)
        assert (bodies(newest), next_before) == (["700000", "1000"], newest[-1].log_offset)
        assert next_before is not None
        oldest, end = await schemes.newest_outside(next_before, 2)
        assert (bodies(oldest), end) == (["9000000"], None)
        assert await broker.reset.delete_topic("a") == 2
        assert bodies(await schemes.outside(-1, 9)) == ["1000"]
        await broker.reset.all()
        assert schemes.pending == 0
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        assert (broker.schemes.pending, (await broker.mover.advance(10_000 * S)).fired) == (0, 0)


async def test_no_delivery_waits_for_a_look_up(
    scheme: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look-up may read all records, for seconds."""
    is_delivered = threading.Event()

    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        sent = await send_in(broker, 1_000, "due")
        store = type(scheme_of(broker).store)
        look = store.with_key

        def slow(self: Any, key_hash: int) -> list[Entry]:
            assert is_delivered.wait(PATIENCE_S)
            return look(self, key_hash)

        monkeypatch.setattr(store, "with_key", slow)
        looking = asyncio.create_task(broker.schemes.find_by_key(sent.stored.unique_key))
        await asyncio.sleep(0)
        assert (await broker.mover.advance(S)).fired == 1
        is_delivered.set()
        assert await looking == []


async def test_a_reset_removes_copies_of_delivered_messages(scheme: TimedSchemeName, tmp_path: Path) -> None:
    folder, copy = tmp_path / SCHEMES[scheme].folder, tmp_path / "copy"
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        begin_us = broker.clock.now_us()
        await send_in(broker, 1_000)
    shutil.copytree(folder, copy)
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        assert (await broker.mover.advance(S)).fired == 1
        await broker.reset.all(begin_us)
    shutil.rmtree(folder)
    copy.rename(folder)
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        await broker.reset.all()
        assert broker.schemes.pending == 0
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        assert (broker.schemes.pending, (await broker.mover.advance(S)).fired) == (0, 0)
    assert rows(tmp_path, "SELECT outcome FROM timed_messages") == [{"outcome": "delivered"}]


async def test_a_half_message_is_kept_once(scheme: TimedSchemeName, tmp_path: Path) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        halves = broker.popped_halves
        half = await halves.prepare(Message(TOPIC, b"half", {"TIMER_DELAY_MS": "5000"}), 60 * S)
        assert broker.schemes.pending == 0
        assert len((await halves.commit(TOPIC, [half.handle])).done) == 1
        assert broker.schemes.timed().pending == 1
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        await broker.mover.advance(5 * S)
        assert bodies(await visible(broker)) == ["half"]


async def test_memory_broker_delays_messages(scheme: TimedSchemeName) -> None:
    async with running_broker(timed_scheme=scheme) as broker:
        for delay_ms in (700_000, 5, 5 * HOUR_MS):
            await send_in(broker, delay_ms, str(delay_ms))
        assert await listed(broker) == ["700000", "5", "18000000"]
        await broker.mover.advance(5 * 3_600 * S)
        assert await in_order_of_delivery(broker) == ["5", "700000", "18000000"]
