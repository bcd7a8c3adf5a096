"""Weaknesses of the article's slots (docs/schemes/slots.md), one test each, and cancelling."""

import asyncio
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.errors import NotPendingError, StoreUnavailableError
from mocketmq.message.message import Message
from mocketmq.message.properties import START_DELIVER_TIME, TIMER_DEL_UNIQKEY, TIMER_DELAY_MS, UNIQ_KEY
from mocketmq.store.writer import Writer
from mocketmq_compat.delay import front
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.parked_message import entry_of
from mocketmq_compat.delay.slots.slot_store import SlotStore
from mocketmq_compat.delay.slots.slots import Slots
from mocketmq_compat.delay.stored_scheme import StoredScheme
from tests.doors.remoting.gates import until
from tests.support.brokers import TOPIC, Refusing, S, bodies, rows, running_broker, send, visible
from tests.support.second_directories import HOUR_MS, MS, WALL_US, in_order_of_delivery, listed, send_in

DAY_MS = 24 * HOUR_MS
SLOTS: dict[str, Any] = {"timed_scheme": "slots"}


def slots_of(broker: Broker) -> Slots:
    """The scheme behind the broker's interface."""
    scheme = broker.schemes.timed()
    assert isinstance(scheme, Slots)
    return scheme


async def cancel_by_message(broker: Broker, unique_key: str, topic: str = TOPIC) -> None:
    properties: dict[str, Any] = {TIMER_DEL_UNIQKEY: unique_key, TIMER_DELAY_MS: "1000"}
    await send(broker, "0", topic=topic, **properties)


async def test_s1_a_message_comes_at_its_millisecond_and_not_at_its_slots_border(tmp_path: Path) -> None:
    chance = random.Random(1)
    delays_ms = chance.sample(range(1_000, 1_300), 100)
    async with running_broker(tmp_path, **SLOTS) as broker:
        start_us = broker.clock.now_us()
        for delay_ms in delays_ms:
            await send_in(broker, delay_ms, str(delay_ms))
        await broker.mover.advance(2 * S)
        assert await in_order_of_delivery(broker) == [str(delay_ms) for delay_ms in sorted(delays_ms)]
        assert broker.schemes.early == 0
    due = rows(tmp_path, "SELECT due_us, delivered_us FROM deliveries ORDER BY due_us")
    assert all(row["due_us"] == row["delivered_us"] for row in due)
    assert due[0]["due_us"] >= start_us + 1_000 * MS


async def test_s2_a_kill_before_the_mark_repeats_nothing(tmp_path: Path) -> None:
    """The position of deliveries is saved by no clock: what is done with is known by its identity."""
    data = tmp_path / "data"
    async with running_broker(data, **SLOTS) as broker:
        sent = [await send_in(broker, 1_000 * number, str(number)) for number in range(1, 5)]
        shutil.copytree(data / "slots", tmp_path / "copies")  # as they are before any mark
        await broker.mover.advance(1 * S)
        await broker.pending.deliver_now(sent[1].stored.unique_key)
        await broker.pending.cancel(sent[2].stored.unique_key)
    for _ in range(2):  # the second time as a backup that somebody copies back
        shutil.rmtree(data / "slots")
        shutil.copytree(tmp_path / "copies", data / "slots")
        async with running_broker(data, **SLOTS) as broker:
            await broker.mover.advance(60 * S)
            assert bodies(await visible(broker)) == ["1", "2", "4"]
            assert slots_of(broker).repeats >= 3
            assert broker.schemes.pending == 0
    once = rows(data, "SELECT count(DISTINCT parked_offset) AS once, count(*) AS times FROM deliveries")
    assert once == [{"once": 3, "times": 3}]


async def test_s3_a_slot_with_many_messages_is_not_in_memory_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "SIZE", 8)
    async with running_broker(tmp_path, delay_sync="never", **SLOTS) as broker:
        scheme = slots_of(broker)
        for number in range(100):
            await send_in(broker, 1_000 + (number * 7) % 50, str(number))
        assert len(scheme._front.entries) <= 16
        assert (await broker.mover.advance(2 * S)).fired == 100
        expected = sorted(range(100), key=lambda number: (number * 7 % 50, number))
        assert await in_order_of_delivery(broker) == [str(number) for number in expected]
    assert rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us <> due_us") == []


async def test_s4_a_record_that_cannot_be_delivered_holds_up_nobody(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **SLOTS) as broker:
        for number in range(5):
            await send_in(broker, 1_000, str(number))
        [data] = (tmp_path / "slots" / "data").iterdir()
        content = data.read_bytes()
        body = content.index(b"}\n2") + 1  # the body of the third, behind its header
        data.write_bytes(content[: body + 1] + b"X" + content[body + 2 :])
        assert (await broker.mover.advance(1 * S)).fired == 4
        assert bodies(await visible(broker)) == ["0", "1", "3", "4"]
        state = broker.schemes.file_figures()
        assert (state.quarantined, state.put_aside, broker.schemes.pending) == (1, {"checksum": 1}, 0)
    async with running_broker(tmp_path, **SLOTS) as broker:
        assert broker.schemes.file_figures().quarantined == 1
    assert len([*(tmp_path / "slots" / ".bad").glob("*.reason")]) == 1


async def test_s5_an_index_without_its_last_item_loses_no_message(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with running_broker(data, **SLOTS) as broker:
        await send_in(broker, 1_000, "first")
        shutil.copytree(data / "slots" / "index", tmp_path / "index")
        await send_in(broker, 1_000, "second")
        shutil.copytree(data / "slots", tmp_path / "slots")
    shutil.rmtree(data / "slots")
    shutil.copytree(tmp_path / "slots", data / "slots")
    shutil.rmtree(data / "slots" / "index")
    shutil.copytree(tmp_path / "index", data / "slots" / "index")
    async with running_broker(data, **SLOTS) as broker:
        assert await listed(broker) == ["first", "second"]
        await broker.mover.advance(1 * S)
        assert await in_order_of_delivery(broker) == ["first", "second"]


async def test_s6_a_disk_that_refuses_keeps_nothing_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with running_broker(tmp_path, **SLOTS) as broker:
        await send_in(broker, 1_000, "kept")
        for name in ("write", "sync"):
            with monkeypatch.context() as patch:
                patch.setattr(SlotStore, name, refuse)
                with pytest.raises(StoreUnavailableError, match="No space left"):
                    await send_in(broker, 1_000, f"refused by {name}")
        with monkeypatch.context() as patch:
            patch.setattr(SlotStore, "forget", refuse)
            assert (await broker.mover.advance(1 * S)).fired == 1
            await slots_of(broker).marked()
            assert (await broker.mover.advance(1 * S)).fired == 0, "unmarked, but known as done with"
            assert broker.schemes.file_figures().unremoved == 1
        await slots_of(broker).tidy()
        assert (broker.schemes.pending, broker.schemes.file_figures().unremoved) == (0, 0)
        assert bodies(await visible(broker)) == ["kept"]
    async with running_broker(tmp_path, **SLOTS) as broker:
        assert broker.schemes.pending == 0


async def test_s7_what_is_cancelled_takes_no_memory_and_stays_cancelled(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **SLOTS) as broker:
        for number in range(6):
            await send_in(broker, 30_000, str(number), **{UNIQ_KEY: f"K{number}"})
        for number in (1, 3):
            await cancel_by_message(broker, f"K{number}")
        await cancel_by_message(broker, f"{TOPIC}+K4")
        await slots_of(broker).marked()
        assert not slots_of(broker).marks.gone
        assert await listed(broker) == ["0", "2", "5"]
    async with running_broker(tmp_path, **SLOTS) as broker:
        assert (await broker.mover.advance(60 * S)).fired == 3
        assert await in_order_of_delivery(broker) == ["0", "2", "5"]
    assert len(rows(tmp_path, "SELECT * FROM interventions WHERE kind = 'cancelled'")) == 3


@pytest.mark.usefixtures("wall")
async def test_s8_a_year_ahead_and_files_that_go_with_their_day(tmp_path: Path) -> None:
    window_us = 400 * DAY_MS * MS
    async with running_broker(tmp_path, start_deliver_window_us=window_us, **SLOTS) as broker:
        await broker.mover.advance((36 * HOUR_MS - broker.clock.now_us() // MS % DAY_MS) * MS)  # to a noon
        now_ms = broker.clock.now_us() // MS
        days = (0, 1, 30, 365)
        for day in days:
            due: dict[str, Any] = {START_DELIVER_TIME: str(WALL_US // MS + day * DAY_MS + 30_000)}
            await send(broker, str(day), **due)
        data = tmp_path / "slots" / "data"
        assert len([*data.iterdir()]) == 4
        for left, day in zip((3, 2, 1), days[1:], strict=True):
            await broker.mover.advance(now_ms * MS + day * DAY_MS * MS + 31 * S - broker.clock.now_us())
            await slots_of(broker).tidy()
            assert len([*data.iterdir()]) == left
            assert len([*(tmp_path / "slots" / "index").iterdir()]) == left
        await broker.mover.advance(DAY_MS * MS)
        await slots_of(broker).tidy()
        assert [*data.iterdir()] == []
        assert await in_order_of_delivery(broker) == [str(day) for day in days]
    assert rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us <> due_us") == []


async def test_s9_a_message_that_comes_behind_the_position_is_delivered(tmp_path: Path) -> None:
    """A half message may be committed after its due time, when its slot is over, or its whole day."""
    async with running_broker(tmp_path, **SLOTS) as broker:
        halves = broker.popped_halves
        half = await halves.prepare(Message(TOPIC, b"half", {TIMER_DELAY_MS: "2000"}), 10 * DAY_MS * MS)
        await send_in(broker, 3_000, "first")
        await send_in(broker, 3 * DAY_MS, "last")
        await broker.mover.advance(2 * DAY_MS * MS)
        await slots_of(broker).tidy()
        assert len((await halves.commit(TOPIC, [half.handle])).done) == 1
        await broker.mover.advance(2 * DAY_MS * MS)
        assert await in_order_of_delivery(broker) == ["first", "half", "last"]


async def test_s10_no_record_is_marked_before_its_delivery_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked: list[Entry] = []
    durable = asyncio.Event()
    real = SlotStore.forget

    def forget(store: SlotStore, entries: list[Entry]) -> None:
        marked.extend(entries)
        real(store, entries)

    async def synced(_: Writer) -> None:
        await durable.wait()

    async with running_broker(tmp_path, **SLOTS) as broker:
        sent = await send_in(broker, 1_000)
        monkeypatch.setattr(SlotStore, "forget", forget)
        with monkeypatch.context() as patch:
            patch.setattr(Writer, "synced", synced)
            moving = asyncio.create_task(broker.mover.advance(1 * S))
            await until(lambda: not broker.schemes.pending)
            assert marked == [], "delivered, but power may fail"
            durable.set()
            assert (await moving).fired == 1
            await slots_of(broker).marked()
        assert marked == [entry_of(sent.stored)]


async def test_s12_nothing_runs_for_slots_in_which_nothing_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three days are 2,592,000 slots."""
    picks: list[int] = []
    real = StoredScheme.firing

    def firing(scheme: StoredScheme, until_us: int) -> Any:
        picks.append(until_us)
        return real(scheme, until_us)

    async with running_broker(tmp_path, **SLOTS) as broker:
        sent = [await send_in(broker, hours * HOUR_MS) for hours in (40, 3, 71)]
        assert broker.timer.next_due_us() == sent[1].stored.due_us, "the timer sleeps until then"
        monkeypatch.setattr(StoredScheme, "firing", firing)
        assert (await broker.mover.advance(3 * DAY_MS * MS)).fired == 3
        assert len(picks) <= 3


async def test_a_delivery_that_the_store_refuses_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, **SLOTS) as broker:
        await send_in(broker, 1_000, "again")
        async with Refusing(broker, monkeypatch):
            with pytest.raises(StoreUnavailableError):
                await broker.mover.advance(1 * S)
            assert broker.schemes.pending == 1
        assert (await broker.mover.advance(1 * S)).fired == 1
        assert await in_order_of_delivery(broker) == ["again"]


async def test_a_message_that_cancels_is_refused_when_there_is_nothing_to_cancel(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **SLOTS) as broker:
        await send_in(broker, 1_000, "it", **{UNIQ_KEY: "IT"})
        await send_in(broker, 1_000, "of another topic", topic="another", **{UNIQ_KEY: "OTHER"})
        for unknown in ("NONE", "OTHER", "another+IT"):
            with pytest.raises(NotPendingError, match=re.escape(f"message {unknown} is not waiting")):
                await cancel_by_message(broker, unknown)
        await cancel_by_message(broker, "IT")
        with pytest.raises(NotPendingError):
            await cancel_by_message(broker, "IT")
        await broker.mover.advance(5 * S)
        assert [len(await visible(broker, topic)) for topic in (TOPIC, "another")] == [0, 1]


async def test_cancelling_while_it_is_due_either_cancels_or_is_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path, delay_sync="never", **SLOTS) as broker:
        for number in range(20):
            await send_in(broker, 1_000, str(number), **{UNIQ_KEY: f"K{number}"})
            outcome, _ = await asyncio.gather(
                cancel_by_message(broker, f"K{number}"), broker.mover.advance(1 * S), return_exceptions=True
            )
            assert outcome is None or isinstance(outcome, NotPendingError)
        delivered, cancelled = (
            broker.schemes.delivered,
            len(rows(tmp_path, "SELECT * FROM interventions WHERE kind = 'cancelled'")),
        )
        assert delivered + cancelled == 20
        assert broker.schemes.pending == 0


async def test_the_quota_counts_what_waits_and_what_is_being_saved(tmp_path: Path) -> None:
    async with running_broker(tmp_path, delay_quota_bytes=3_000, **SLOTS) as broker:
        results = await asyncio.gather(
            *(send_in(broker, 1_000, "x" * 500) for _ in range(9)), return_exceptions=True
        )
        refused = [result for result in results if isinstance(result, Exception)]
        assert 0 < len(refused) < 9
        assert "raise --delay-quota" in str(refused[0])
        assert broker.schemes.pending == 9 - len(refused)
        assert broker.schemes.file_figures().disk_bytes <= 3_000
