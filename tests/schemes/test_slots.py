"""The weaknesses of the article's slots (docs/schemes/slots.md), one test each, and cancellation."""

import asyncio
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.errors import NotPendingError
from mocketmq.message.message import Message
from mocketmq.message.properties import START_DELIVER_TIME, TIMER_DEL_UNIQKEY, TIMER_DELAY_MS, UNIQ_KEY
from mocketmq_compat.delay.slots.slot_store import Slots
from tests.support.brokers import TOPIC, S, rows, running_broker, send, visible
from tests.support.second_directories import HOUR_MS, MS, WALL_US, in_order_of_delivery, listed, send_in

DAY_MS = 24 * HOUR_MS
SLOTS: dict[str, Any] = {"timed_scheme": "slots"}


def slots_of(broker: Broker) -> Slots:
    """Return the scheme behind the broker's interface."""
    scheme = broker.schemes.timed()
    assert isinstance(scheme, Slots)
    return scheme


async def cancel_by_message(broker: Broker, unique_key: str) -> None:
    properties: dict[str, Any] = {TIMER_DEL_UNIQKEY: unique_key, TIMER_DELAY_MS: "1000"}
    await send(broker, "0", **properties)


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
        await broker.mover.advance((36 * HOUR_MS - broker.clock.now_us() // MS % DAY_MS) * MS)  # to noon
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
    """A half message may be committed after its due time, when its slot or its whole day has passed."""
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


async def test_cancelling_message_without_a_target_is_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **SLOTS) as broker:
        await send_in(broker, 1_000, "it", **{UNIQ_KEY: "IT"})
        await send_in(broker, 1_000, "of another topic", topic="another", **{UNIQ_KEY: "OTHER"})
        for unknown in ("NONE", "OTHER", "another+IT"):
            with pytest.raises(NotPendingError, match=re.escape(f"message {unknown} is not pending")):
                await cancel_by_message(broker, unknown)
        await cancel_by_message(broker, "IT")
        with pytest.raises(NotPendingError):
            await cancel_by_message(broker, "IT")
        await broker.mover.advance(5 * S)
        assert [len(await visible(broker, topic)) for topic in (TOPIC, "another")] == [0, 1]


async def test_cancelling_at_the_due_time_succeeds_or_is_refused(tmp_path: Path) -> None:
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
