"""The ledger: its documented columns, and the value of each column after every kind of delivery."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.message.message import Message
from mocketmq.message.properties import DELAY
from mocketmq.schedule import ledger
from tests.support.brokers import (
    GROUP,
    TOPIC,
    S,
    acknowledge,
    give_back,
    receive,
    rows,
    running_broker,
    send,
    visible,
)
from tests.support.held_up import HeldUp
from tests.support.patience import PATIENCE_S

STAGES = ("born_us", "stored_us", "due_us", "picked_us", "delivered_us", "pulled_us", "acked_us")


def recorded(data: Path) -> list[dict[str, Any]]:
    return rows(data, "SELECT * FROM deliveries ORDER BY delivered_offset")


@pytest.mark.interpreted  # compiled modules have no docstring
async def test_the_documented_columns_are_those_of_the_table(tmp_path: Path) -> None:
    async with running_broker(tmp_path):
        columns = rows(tmp_path, "SELECT name FROM pragma_table_info('deliveries')")
    names = re.findall(r"^(\w+(?:, \w+)*) {2,}\S", ledger.__doc__ or "", re.MULTILINE)
    assert ", ".join(names).split(", ") == [column["name"] for column in columns]


async def test_a_delivery_is_recorded_with_all_its_stages(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        start_us = broker.clock.now_us()
        message = Message(TOPIC, b"four", {DELAY: "3"}, 2, born_us=start_us - 7)
        parked = (await broker.sender.send(message)).stored
        await broker.mover.advance(60 * S)
        [delivered] = await visible(broker)
        taken = await receive(broker)
        await broker.mover.advance(3 * S)
        await acknowledge(broker, taken)
        [row] = recorded(tmp_path)
    assert row == {
        "delivered_offset": delivered.log_offset,
        "run": 1,
        "parked_offset": parked.log_offset,
        "unique_key": parked.unique_key,
        "topic": TOPIC,
        "queue_id": 2,
        "queue_offset": 0,
        "scheme": "levels",
        "level": 3,
        "attempt": 1,
        "size": 4,
        "forced": 0,
        "born_us": start_us - 7,
        "stored_us": start_us,
        "due_us": start_us + 10 * S,
        "picked_us": start_us + 10 * S,
        "delivered_us": start_us + 10 * S,
        "pulled_us": start_us + 60 * S,
        "pulled_by": GROUP,
        "acked_us": start_us + 63 * S,
        "fault": None,
    }


async def test_stages_follow_each_other_in_real_time(tmp_path: Path) -> None:
    async with running_broker(tmp_path, clock="x1000") as broker:
        for level in (1, 2, 3):
            await send(broker, level=level)
        for _ in range(3):
            await acknowledge(broker, await receive(broker, 1, wait_s=30, invisible_us=10**9 * S))
        found = recorded(tmp_path)
    assert len(found) == 3
    for row in found:
        stages = [row[stage] for stage in STAGES]
        assert stages == sorted(stages)


async def test_undelayed_messages_are_not_recorded(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker)
        await acknowledge(broker, await receive(broker))
        assert recorded(tmp_path) == []


async def test_a_forced_delivery_is_marked(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        sent = await send(broker, level=18)
        await broker.pending.deliver_now(sent.stored.unique_key)
        [row] = recorded(tmp_path)
    assert (row["forced"], row["due_us"], row["delivered_us"]) == (
        1,
        sent.stored.due_us,
        sent.stored.store_us,
    )


async def test_attempts_count_messages_given_back(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker, level=1)
        await broker.mover.move_to_next()
        for _ in range(2):
            await give_back(broker, await receive(broker))
            await broker.mover.move_to_next()
        found = recorded(tmp_path)
    assert [(row["attempt"], row["level"], row["topic"]) for row in found] == [
        (1, 1, TOPIC),
        (2, 3, f"%RETRY%{GROUP}"),
        (3, 4, f"%RETRY%{GROUP}"),
    ]
    assert [(row["pulled_by"], row["acked_us"]) for row in found] == [
        (GROUP, None),
        (GROUP, None),
        (None, None),
    ]


async def test_only_the_first_pull_and_the_first_acknowledgement_count(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await delivered(broker)
        first_us = broker.clock.now_us()
        mine = await receive(broker)
        await broker.mover.advance(5 * S)
        theirs = await receive(broker, group="shipping")
        await acknowledge(broker, theirs, "shipping")
        await broker.mover.advance(5 * S)
        await acknowledge(broker, mine)
        [row] = recorded(tmp_path)
    assert (row["pulled_by"], row["pulled_us"], row["acked_us"]) == (GROUP, first_us, first_us + 5 * S)


async def test_a_pull_by_offset_counts_as_well(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await delivered(broker)
        await broker.pull.pull("puller", TOPIC, 0, 0, 10)
    [row] = recorded(tmp_path)
    assert (row["pulled_by"], row["pulled_us"]) == ("puller", row["delivered_us"])


async def test_pulls_do_not_wait_for_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker(tmp_path) as broker:
        await delivered(broker)
        await broker.pull.pull("puller", TOPIC, 1, 0, 10)  # stores the group
        held_up = HeldUp(broker, monkeypatch)
        other = asyncio.create_task(send(broker))
        await held_up.begun()
        async with asyncio.timeout(PATIENCE_S):
            [message] = (await broker.pull.pull("puller", TOPIC, 0, 0, 10)).messages
        assert not other.done()
        looking = asyncio.create_task(broker.histories.of(message.unique_key))
        held_up.go.set()
        [record] = (await looking).deliveries
        assert (record.pulled_by, record.pulled_us) == ("puller", record.delivered_us)
        await other


async def test_late_note_has_the_time_of_the_pull(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker(tmp_path) as broker:
        await delivered(broker)
        pull = broker.pull.pull
        await pull("puller", TOPIC, 1, 0, 10)  # stores the group
        pulled_us = broker.clock.now_us()
        held_up = HeldUp(broker, monkeypatch)
        other = asyncio.create_task(send(broker))
        await held_up.begun()
        await pull("puller", TOPIC, 0, 0, 10)
        broker.clock.reach(pulled_us + 5 * S)
        acknowledging = asyncio.create_task(broker.committed_offsets.report("puller", TOPIC, 0, 1))
        await held_up.queued(3)
        broker.clock.reach(pulled_us + 9 * S)
        held_up.go.set()
        await asyncio.gather(other, acknowledging)
    [row] = recorded(tmp_path)
    assert (row["pulled_us"], row["acked_us"]) == (pulled_us, pulled_us + 5 * S)


async def test_browsing_and_lookup_leave_no_trace(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await delivered(broker)
        [message] = await visible(broker)
        await broker.histories.of(message.unique_key)
        [row] = recorded(tmp_path)
    assert row["pulled_us"] is None


async def test_each_run_records_under_its_own_number(tmp_path: Path) -> None:
    for _ in range(2):
        async with running_broker(tmp_path) as broker:
            await delivered(broker)
    assert [row["run"] for row in recorded(tmp_path)] == [1, 2]


async def delivered(broker: Broker) -> None:
    await send(broker, level=1, queue=0)
    await broker.mover.move_to_next()
