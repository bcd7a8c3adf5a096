"""Second directories in the broker: messages are kept, ordered, delivered and accounted for."""

import asyncio
import os
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.removal.retention import Retention
from mocketmq.message.message import Message
from mocketmq.message.properties import (
    DELAY,
    START_DELIVER_TIME,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMERS,
    UNIQ_KEY,
    decode_properties,
)
from mocketmq.schedule import scheme as schemes
from mocketmq.store.database import MEMORY
from mocketmq_compat.delay.delayed_file import decode
from tests.support.api import metrics_of, running_api
from tests.support.brokers import (
    GROUP,
    TOPIC,
    S,
    acknowledge,
    receive,
    rows,
    running_broker,
    send,
    visible,
)
from tests.support.second_directories import (
    HOUR_MS,
    MS,
    WALL_US,
    in_order_of_delivery,
    listed,
    message_files,
    names_below,
    no_removal_left,
    scheme_of,
    send_in,
    turn_by_hand,
)

# Keeping messages


async def test_message_is_one_file_in_the_directory_of_its_second(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        now_us = broker.clock.now_us()
        sent = await send(broker, "hällo", queue=2, tag="A", own="mine", **{TIMER_DELAY_MS: "1500"})
        due_us = now_us + 1_500 * MS
        assert (sent.stored.due_us, sent.stored.store_us, sent.level) == (due_us, now_us, 0)
        [path] = message_files(tmp_path)
        assert path.parent == tmp_path / "delay" / str(due_us // S)
        header, body = decode(path.read_bytes())
        assert (header.topic, header.queue_id, header.due_us, header.stored_us) == (TOPIC, 2, due_us, now_us)
        assert (header.properties["own"], body.decode()) == ("mine", "hällo")
        assert path.name == header.entry.name
        assert broker.store.writer.next_log_offset == 0, "the store hears of it when it is due"
        assert await visible(broker) == []


async def test_delivery_at_its_millisecond_removes_the_file(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        due_us = (await send_in(broker, 1_500)).stored.due_us
        assert due_us == broker.clock.now_us() + 1_500 * MS
        assert (await broker.mover.advance(1_500 * MS - 1)).fired == 0
        assert await visible(broker) == []
        assert (await broker.mover.advance(1)).fired == 1
        [message] = await visible(broker)
        assert message.store_us == due_us == broker.clock.now_us()
        await no_removal_left(broker)
        assert names_below(tmp_path) == []


async def test_a_due_time_between_two_milliseconds_is_never_rounded_down(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        now_us = (await broker.mover.advance(1)).now_us
        sent = await send_in(broker, 10)
        assert sent.stored.due_us == now_us - 1 + 11 * MS
        moved = await broker.mover.move_to_next()
        assert (moved.now_us, moved.fired) == (sent.stored.due_us, 1)


@pytest.mark.usefixtures("wall")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        (START_DELIVER_TIME, WALL_US // MS + 7_000),
        (TIMER_DELIVER_MS, WALL_US // MS + 7_000),
        (TIMER_DELAY_SEC, 7),
        (TIMER_DELAY_MS, 7_000),
    ],
)
async def test_every_absolute_due_time_is_kept_in_second_directories(
    anywhere: Path | str, name: str, value: int
) -> None:
    async with running_broker(anywhere) as broker:
        now_us = (await broker.mover.advance(100 * S)).now_us
        due: dict[str, Any] = {name: str(value)}
        sent = await send(broker, **due)
        assert (sent.stored.due_us, broker.schemes.timed().pending) == (now_us + 7 * S, 1)
        await broker.mover.move_to_next()
        [message] = await visible(broker)
        assert (message.store_us, decode_properties(message.properties)[name]) == (now_us + 7 * S, str(value))


async def test_every_field_of_a_message_survives(anywhere: Path | str) -> None:
    properties = {"KEYS": "k1 k2", "TAGS": "A", "own": "ü\n|:", UNIQ_KEY: "my-key", TIMER_DELAY_MS: "5"}
    message = Message(TOPIC, b"\xff\0\n", dict(properties), 3, 7, 8, 1_234, "10.1.2.3:4567", 2)
    async with running_broker(anywhere) as broker:
        parked = (await broker.sender.send(message)).stored
        await broker.mover.move_to_next()
        [found] = await visible(broker)
        kept = ("flag", "sys_flag", "born_us", "born_host", "reconsume_times", "unique_key", "tag_hash")
        for name in (*kept, "body", "properties"):
            assert getattr(found, name) == getattr(parked, name), name
        assert (found.flag, found.sys_flag, found.born_us, found.born_host) == (7, 8, 1_234, "10.1.2.3:4567")
        assert (found.body, found.reconsume_times) == (b"\xff\0\n", 2)
        assert properties.items() <= decode_properties(found.properties).items()
        assert broker.registry.topics.queue(found.queue_key).queue_id == 3
        assert (found.due_us, found.parked_offset) == (None, parked.log_offset)
        assert [one.message.body for one in await receive(broker, tags="B || A")] == [b"\xff\0\n"]


async def test_a_delivery_wakes_a_receiver(anywhere: Path | str) -> None:
    async with running_broker(anywhere, clock="real") as broker:
        receiver = asyncio.create_task(receive(broker, wait_s=30))
        due_us = (await send_in(broker, 30)).stored.due_us
        [taken] = await receiver
        assert due_us is not None
        assert taken.message.store_us >= due_us


async def test_a_past_start_deliver_time_is_no_delay(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        for name, value in ((TIMER_DELAY_MS, "0"), (TIMER_DELAY_SEC, "-1"), (START_DELIVER_TIME, "1")):
            due: dict[str, Any] = {name: value}
            sent = await send(broker, **due)
            assert sent.stored.due_us is None
        assert (broker.pending.count, len(await visible(broker))) == (0, 3)


# A delay level has priority


async def test_a_delay_level_wins_over_every_absolute_due_time(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        due: dict[str, Any] = dict.fromkeys((START_DELIVER_TIME, *TIMERS), "no number, and nobody looks")
        sent = await send(broker, level=1, **due)
        assert (sent.level, broker.schemes.timed().pending, names_below(tmp_path)) == (1, 0, [])
        assert (await broker.mover.advance(1 * S)).fired == 1
        [message] = await visible(broker)
        found = decode_properties(message.properties)
        assert found[START_DELIVER_TIME] == due[START_DELIVER_TIME], "it stays, and does nothing"
        assert not set(TIMERS) & set(found), "these go, as upstream"
    [row] = rows(tmp_path, "SELECT scheme, level FROM deliveries")
    assert row == {"scheme": "levels", "level": 1}


@pytest.mark.parametrize("level", ["0", "-1"])
async def test_an_invalid_level_does_not_delay(level: str) -> None:
    async with running_broker() as broker:
        sent = await send_in(broker, 1_000, **{DELAY: level})
        assert (sent.level, broker.schemes.timed().pending) == (0, 1)


# Order


async def test_order_of_a_thousand_in_one_second_survives_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(12)
    expected: list[tuple[int, int]] = []  # due millisecond within the second, and order of arrival
    second_us = 0
    for run in range(3):
        async with running_broker(tmp_path, delay_sync="never") as broker:
            # Later messages stay behind earlier messages although the wall clock is set back in between.
            monkeypatch.setattr(schemes, "wall_us", partial(int, WALL_US - run * 3_600 * S))
            second_us = second_us or (broker.clock.now_us() // S + 2) * S
            numbers = range(400 * run, 400 * (run + 1))
            due = [(dice.randrange(1_000), number) for number in numbers]
            before_ms = (second_us - broker.clock.now_us()) // MS
            await asyncio.gather(*(send_in(broker, before_ms + ms, str(number)) for ms, number in due))
            expected += due
    for until_ms in (250, 600, 999):
        async with running_broker(tmp_path) as broker:
            await broker.mover.move_to(second_us + until_ms * MS)
            due = sorted(one for one in expected if one[0] <= until_ms)
            assert await in_order_of_delivery(broker) == [str(number) for _, number in due]
            assert broker.pending.count == 1_200 - len(due)


async def test_both_schemes_deliver_in_the_order_of_their_times(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        for delay_ms in (10_000, 999, 7_000, 4_999, 5_001):
            await send_in(broker, delay_ms, f"{delay_ms} at a time")
        for level, delay_ms in ((1, 1_000), (2, 5_000), (3, 10_000)):
            await send(broker, f"{delay_ms} by level", level=level)
        await broker.mover.advance(60 * S)
        found = await in_order_of_delivery(broker)
        assert found[:-2] == [
            *("999 at a time", "1000 by level", "4999 at a time", "5000 by level", "5001 at a time"),
            "7000 at a time",
        ]
        assert sorted(found[-2:]) == ["10000 at a time", "10000 by level"]


# In memory


async def test_memory_broker_writes_no_files_and_forgets_its_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    turn_by_hand(monkeypatch)
    for _ in range(2):
        async with running_broker(MEMORY) as broker:
            assert broker.pending.count == 0
            await send_in(broker, 1_000, "kept")
            await send_in(broker, 1_000, "delivered")
            await broker.pending.deliver_now((await broker.pending.list())[1].message.unique_key)
            assert (broker.pending.count, await in_order_of_delivery(broker)) == (1, ["delivered"])
            await scheme_of(broker).tidy()
    assert [*os.scandir(tmp_path)] == []


# What the broker reports


async def test_metrics_and_level_table_include_second_directories(tmp_path: Path) -> None:
    async with running_api(data=str(tmp_path)) as api:
        first = await api.send(delay_ms=1_000)
        second = await api.send(delay_ms=60_000)
        await api.send(delay_level=18)
        levels = await api.ok("GET", "/v1/levels")
        assert levels["levels"][17]["pending"] == 1
        assert sum(level["pending"] for level in levels["levels"]) == 1
        state = levels["timed"]
        expected = {
            "scheme": "directories",
            "pending": 2,
            "parts": 2,
            "disk_bytes": 2 * 4_096,
            "next_due_ms": first["due_ms"],
        }
        assert state | expected == state
        assert (state["oldest_overdue_ms"], state["quarantined"], state["unremoved"]) == (None, 0, 0)
        scheme = "directories"
        found = await metrics_of(api)
        assert found["pending_messages", "", scheme] == 2
        assert found["pending_messages", "18", "levels"] == 1
        assert found["next_due_seconds", "", scheme] == 1
        assert found["overdue_seconds", "", scheme] == 0
        assert found["delay_disk_bytes",] == 2 * 4_096
        await api.ok("POST", "/v1/clock/next")
        await no_removal_left(api.emulator.broker)
        found = await metrics_of(api)
        assert (found["pending_messages", "", scheme], found["next_due_seconds", "", scheme]) == (1, 59)
        assert (found["delivered_delayed_messages_total",], found["early_messages_total",]) == (1, 0)
        assert (found["delay_disk_bytes",], found["unremoved_files",]) == (4_096, 0)
        clock = await api.ok("GET", "/v1/clock")
        assert (clock["pending"], clock["next_due_ms"]) == (2, second["due_ms"])


async def test_every_delivery_has_its_row_in_the_ledger(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        now_us = broker.clock.now_us()
        sent = await send(broker, "12345", queue=1, **{TIMER_DELAY_MS: "1500"})
        await broker.mover.advance(2 * S)
        taken = await receive(broker)
        await broker.mover.advance(1 * S)
        await acknowledge(broker, taken)
        [delivered] = await visible(broker)
        await send_in(broker, HOUR_MS, "pending")
    [row] = rows(tmp_path, "SELECT * FROM deliveries")
    due_us = now_us + 1_500 * MS
    assert row == {
        "delivered_offset": delivered.log_offset,
        "run": 1,
        "parked_offset": sent.stored.log_offset,
        "unique_key": sent.stored.unique_key,
        "topic": TOPIC,
        "queue_id": 1,
        "queue_offset": 0,
        "scheme": "directories",
        "level": None,
        "attempt": 1,
        "size": 5,
        "forced": 0,
        "born_us": now_us,
        "stored_us": now_us,
        "due_us": due_us,
        "picked_us": due_us,
        "delivered_us": due_us,
        "pulled_us": now_us + 2 * S,
        "pulled_by": GROUP,
        "acked_us": now_us + 3 * S,
        "fault": None,
    }


async def test_retention_keeps_pending_messages(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for text in ("pending", "cancelled", "delivered"):
            sent = await send_in(broker, 500 if text == "delivered" else HOUR_MS, text)
            if text == "cancelled":
                await broker.pending.cancel(sent.stored.unique_key)
        await broker.mover.move_to_next()
        retention = Retention(
            broker.store, broker.registry, broker.consuming_groups, broker.schemes, age_us=0, max_bytes=1
        )
        assert await retention.turn() == 2, "the record of the cancelled one, and the delivered one"
        assert await listed(broker) == ["pending"]
        assert (await broker.mover.move_to_next()).fired == 1
        assert await in_order_of_delivery(broker) == ["pending"]
