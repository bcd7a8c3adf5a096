"""The judge must catch every kind of broken promise, or the crash tests prove nothing."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from emulator.client import Answer
from emulator.store.database import FILE_NAME
from tests.crash.judge import Judge
from tests.crash.load import GROUP, TOPIC
from tests.crash.survivor import Survivor, Variant, faults_of_store

DUE_MS = 5_000


def message(queue_offset: int, message_id: str = "a", **other: int) -> Answer:
    """As a broker shows one that was delayed until 5 s."""
    offsets = {"commit_offset": 10 + queue_offset, "queue_offset": queue_offset}
    return {"message_id": message_id, "reconsume_times": 0, "store_ms": DUE_MS, **offsets, **other}


@pytest.fixture
def judge() -> Judge:
    """Has seen message ``a`` acknowledged, due at 5 s."""
    judge = Judge()
    judge.sending(["a", "b"])
    judge.sent({"message_id": "a", "store_ms": 4_000, "due_ms": DUE_MS})
    return judge


def consume(judge: Judge, *messages: Answer) -> None:
    judge.received(messages)
    judge.acking(messages)
    judge.acknowledged(messages)


def browse_and_consume(judge: Judge, *messages: Answer) -> None:
    judge.browsed(TOPIC, 0, messages)
    consume(judge, *messages)


def test_all_is_well(judge: Judge) -> None:
    browse_and_consume(judge, message(0), message(1, "b"))
    assert judge.verdict() == []


def test_lost(judge: Judge) -> None:
    browse_and_consume(judge, message(0, "b"))
    assert judge.verdict() == ["Copy(message_id='a', attempt=1) was lost"]


def test_not_acknowledged_may_be_lost(judge: Judge) -> None:
    browse_and_consume(judge, message(0))
    assert judge.verdict() == []


@pytest.mark.parametrize("message_id", ["a", "b"])
def test_doubled(judge: Judge, message_id: str) -> None:
    browse_and_consume(judge, message(0), message(1, message_id), message(2, message_id))
    assert [fault for fault in judge.verdict() if "was stored" in fault]


def test_doubled_where_that_is_allowed() -> None:
    judge = Judge(may_repeat=True)
    judge.sending(["a"])
    browse_and_consume(judge, message(0), message(1))
    assert judge.verdict() == []


def test_early(judge: Judge) -> None:
    browse_and_consume(judge, message(0, store_ms=DUE_MS - 1))
    assert judge.verdict() == ["Copy(message_id='a', attempt=1) came 1 ms early"] * 2


def test_invented(judge: Judge) -> None:
    browse_and_consume(judge, message(0), message(1, "c"))
    assert "Copy(message_id='c', attempt=1) was never sent" in judge.verdict()


def test_received_after_it_was_acknowledged(judge: Judge) -> None:
    browse_and_consume(judge, message(0))
    judge.received([message(0)])
    assert judge.verdict() == ["Copy(message_id='a', attempt=1) was received again after it was acknowledged"]


def test_never_received(judge: Judge) -> None:
    judge.browsed(TOPIC, 0, [message(0)])
    assert judge.verdict() == ["Copy(message_id='a', attempt=1) never reached the group"]


def test_given_back_and_lost(judge: Judge) -> None:
    judge.browsed(TOPIC, 0, [message(0)])
    judge.giving_back([message(0)], 1_000)
    judge.gave_back([message(0)])
    assert judge.verdict() == ["Copy(message_id='a', attempt=2) was lost"]


def test_given_back_and_early(judge: Judge) -> None:
    browse_and_consume(judge, message(0))
    judge.giving_back([message(0)], 1_000)
    judge.gave_back([message(0)])
    judge.browsed("%RETRY%" + GROUP, 0, [message(0, commit_offset=20, reconsume_times=1, store_ms=5_999)])
    assert "Copy(message_id='a', attempt=2) came 1 ms early" in judge.verdict()


def test_clock_went_back(judge: Judge) -> None:
    judge.clock_is(3_999)
    assert judge.faults == ["the clock went back by 1 ms"]


@pytest.mark.parametrize("queue_offset", [0, 2])
def test_offsets_with_a_double_or_a_gap(judge: Judge, queue_offset: int) -> None:
    judge.browsed(TOPIC, 0, [message(0), message(queue_offset, "b", commit_offset=20)])
    assert judge.faults == [f"{TOPIC}/0 has {queue_offset} where 1 is expected"]


def test_commit_offset_given_out_twice(judge: Judge) -> None:
    browse_and_consume(judge, message(0))
    judge.browsed(TOPIC, 1, [message(0, "b", commit_offset=10)])
    assert judge.verdict() == ["commit offset 10 was given out twice"]


TAMPERING = {
    "DELETE FROM deliveries WHERE delivered_offset = {delivered}": "ledger, missing or wrong",
    "DELETE FROM messages WHERE commit_offset = {delivered}": "ledger, without its message",
    "UPDATE deliveries SET due_us = due_us + 1": "ledger, delivered early",
    "UPDATE deliveries SET parked_offset = {parked}": "ledger, delivered twice",
    "UPDATE deliveries SET parked_offset = -1 WHERE parked_offset = {parked}": "ledger, never delivered",
    "UPDATE deliveries SET acked_us = NULL": "ledger, acknowledgement missing",
    "UPDATE messages SET store_us = store_us + 1000": "the queues do not hold what they showed",
}


async def test_tampering_with_the_store(tmp_path: Path) -> None:
    survivor = Survivor(tmp_path, Variant("manual", "exact", [1]))
    async with survivor.broker() as (_, client):
        survivor.judge.sending(["a", "b"])
        for message_id in ("a", "b"):
            survivor.judge.sent(await client.send(TOPIC, "b", message_id=message_id, delay_level=1))
    await survivor.recover()
    original = survivor.data / FILE_NAME
    for number, (tampering, found) in enumerate(TAMPERING.items()):
        copy = tmp_path / f"{number}.db"
        shutil.copy(original, copy)
        with closing(sqlite3.connect(copy)) as database, database:
            ((delivered, parked),) = database.execute(
                "SELECT max(delivered_offset), max(parked_offset) FROM deliveries"
            )
            database.execute(tampering.format(delivered=delivered, parked=parked))
        faults = list(faults_of_store(copy, survivor.judge))
        assert any(fault.startswith(found) for fault in faults), (tampering, faults)
    assert list(faults_of_store(original, survivor.judge)) == []
