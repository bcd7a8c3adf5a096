"""The judge finds every kind of broken promise; otherwise the crash tests would prove nothing."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mocketmq import outgoing
from mocketmq.client.answer import JsonObject
from mocketmq.store.database import FILE_NAME
from tests.crash.judge import Judge
from tests.crash.load import GROUP, TOPIC
from tests.crash.survivor import Survivor, Variant, faults_of_files, faults_of_store
from tests.support.delayed_files import made

DUE_MS = 5_000


def message(queue_offset: int, message_id: str = "a", **other: int) -> JsonObject:
    """Return a message delayed until 5 s, as a broker shows it."""
    offsets = {"log_offset": 10 + queue_offset, "queue_offset": queue_offset}
    return {"message_id": message_id, "reconsume_times": 0, "store_ms": DUE_MS, **offsets, **other}


@pytest.fixture
def judge() -> Judge:
    """A judge that has seen the send of ``a`` acknowledged, due at 5 s."""
    judge = Judge()
    judge.sending([{"message_id": "a"}, {"message_id": "b"}])
    judge.sent({"message_id": "a", "store_ms": 4_000, "due_ms": DUE_MS})
    return judge


def consume(judge: Judge, *messages: JsonObject) -> None:
    judge.received(messages)
    judge.acking(messages)
    judge.acknowledged(messages)


def browse_and_consume(judge: Judge, *messages: JsonObject) -> None:
    judge.browsed(TOPIC, 0, messages)
    consume(judge, *messages)


def test_judge_accepts_a_correct_run(judge: Judge) -> None:
    browse_and_consume(judge, message(0), message(1, "b"))
    assert judge.verdict() == []


def test_judge_finds_a_lost_message(judge: Judge) -> None:
    browse_and_consume(judge, message(0, "b"))
    assert judge.verdict() == ["Copy(message_id='a', attempt=1) was lost"]


def test_not_acknowledged_may_be_lost(judge: Judge) -> None:
    browse_and_consume(judge, message(0))
    assert judge.verdict() == []


@pytest.mark.parametrize("message_id", ["a", "b"])
def test_judge_finds_a_repeated_message(judge: Judge, message_id: str) -> None:
    browse_and_consume(judge, message(0), message(1, message_id), message(2, message_id))
    assert [fault for fault in judge.verdict() if "was stored" in fault]


def test_a_dead_letter_is_no_repeat(judge: Judge) -> None:
    browse_and_consume(judge, message(0))
    judge.browsed(f"%DLQ%{GROUP}", 0, [message(0, log_offset=20, reconsume_times=1)])
    assert judge.verdict() == []


def test_doubled_where_repeats_are_allowed() -> None:
    judge = Judge(may_repeat=True)
    judge.sending([{"message_id": "a"}])
    browse_and_consume(judge, message(0), message(1))
    assert judge.verdict() == []


def test_judge_finds_an_early_message(judge: Judge) -> None:
    browse_and_consume(judge, message(0, store_ms=DUE_MS - 1))
    assert judge.verdict() == ["Copy(message_id='a', attempt=1) came 1 ms early"] * 2


def test_judge_finds_an_unknown_message(judge: Judge) -> None:
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
    judge.browsed("%RETRY%" + GROUP, 0, [message(0, log_offset=20, reconsume_times=1, store_ms=5_999)])
    assert "Copy(message_id='a', attempt=2) came 1 ms early" in judge.verdict()


def test_clock_went_back(judge: Judge) -> None:
    judge.clock_is(3_999)
    assert judge.faults == ["the clock went back by 1 ms"]


@pytest.mark.parametrize("queue_offset", [0, 2])
def test_offsets_with_a_double_or_a_gap(judge: Judge, queue_offset: int) -> None:
    judge.browsed(TOPIC, 0, [message(0), message(queue_offset, "b", log_offset=20)])
    assert judge.faults == [f"{TOPIC}/0 has {queue_offset} where 1 is expected"]


def test_log_offset_given_out_twice(judge: Judge) -> None:
    browse_and_consume(judge, message(0))
    judge.browsed(TOPIC, 1, [message(0, "b", log_offset=10)])
    assert judge.verdict() == ["log offset 10 was given out twice"]


def timed(message_id: str, **fields: int) -> JsonObject:
    return {"message_id": message_id, "delay_level": 0, **fields}


@pytest.fixture
def timed_judge() -> Judge:
    """A judge that has seen the send of ``a`` acknowledged, which waits in a file until 5 s."""
    judge = Judge(may_repeat=True)
    judge.saw_clock(4_000)
    judge.sending([timed("a", delay_ms=1_000)])
    judge.sent({"message_id": "a", "store_ms": 4_000, "due_ms": DUE_MS})
    return judge


def test_messages_in_files_never_repeat(timed_judge: Judge) -> None:
    browse_and_consume(timed_judge, message(0), message(1))
    assert timed_judge.verdict() == ["Copy(message_id='a', attempt=1) was stored 2 times"]


def test_absolute_due_time_not_acknowledged_and_doubled(timed_judge: Judge) -> None:
    timed_judge.sending([timed("b", start_deliver_ms=1)])
    browse_and_consume(timed_judge, message(0), message(1, "b"), message(2, "b"))
    assert timed_judge.verdict() == ["Copy(message_id='b', attempt=1) was stored 2 times"]


def test_not_acknowledged_and_early(timed_judge: Judge) -> None:
    timed_judge.sending([timed("b", delay_ms=1_001)])
    browse_and_consume(timed_judge, message(0), message(1, "b"))
    assert timed_judge.verdict() == ["Copy(message_id='b', attempt=1) came 1 ms early"] * 2


def test_due_too_early(timed_judge: Judge) -> None:
    timed_judge.sending([timed("b", delay_ms=1_001)])
    timed_judge.sent({"message_id": "b", "store_ms": 4_000, "due_ms": DUE_MS})
    assert timed_judge.faults == ["Copy(message_id='b', attempt=1) is due 1 ms before it should be"]


@pytest.mark.parametrize(("due_ms", "early"), [(DUE_MS, False), (DUE_MS - 1, False), (DUE_MS + 1, True)])
def test_early_by_whole_seconds(due_ms: int, early: bool) -> None:
    judge = Judge(whole_seconds=True)
    judge.sending([timed("a", start_deliver_ms=1)])
    judge.sent({"message_id": "a", "store_ms": 4_000, "due_ms": due_ms})
    judge.browsed(TOPIC, 0, [message(0, store_ms=DUE_MS + 999)])
    assert judge.faults == ["Copy(message_id='a', attempt=1) came 1 ms early"] * early


def test_cancelled_and_delivered(timed_judge: Judge) -> None:
    timed_judge.cancelling("a")
    timed_judge.cancelled("a")
    browse_and_consume(timed_judge, message(0))
    assert timed_judge.verdict() == ["Copy(message_id='a', attempt=1) came after it was cancelled"]


@pytest.mark.parametrize("answered", [True, False])
def test_cancelled_is_not_lost(timed_judge: Judge, answered: bool) -> None:
    timed_judge.cancelling("a")
    if answered:
        timed_judge.cancelled("a")
    assert timed_judge.verdict() == []


def test_too_late_to_be_cancelled_and_lost(timed_judge: Judge) -> None:
    timed_judge.cancelling("a")
    timed_judge.not_cancelled("a")
    assert timed_judge.verdict() == ["Copy(message_id='a', attempt=1) was lost"]


@pytest.mark.parametrize("forced", [True, False])
def test_early_by_hand(timed_judge: Judge, forced: bool) -> None:
    if forced:
        timed_judge.forcing("a")
    browse_and_consume(timed_judge, message(0, store_ms=4_000))
    assert (timed_judge.verdict() == []) == forced


TAMPERING = {
    "DELETE FROM deliveries WHERE delivered_offset = {delivered}": "ledger, missing or wrong",
    "DELETE FROM messages WHERE log_offset = {delivered}": "ledger, without its message",
    "UPDATE deliveries SET due_us = due_us + 1": "ledger, delivered early",
    "UPDATE deliveries SET parked_offset = {parked}": "ledger, delivered twice",
    "UPDATE deliveries SET parked_offset = -1 WHERE parked_offset = {parked}": "ledger, never delivered",
    "UPDATE deliveries SET acked_us = NULL": "ledger, acknowledgement missing",
    "UPDATE messages SET store_us = store_us + 1000": "the queues do not hold what they showed",
    "UPDATE deliveries SET parked_offset = 7 WHERE level IS NULL": "ledger, delivered twice from a file",
    "DELETE FROM timed_messages WHERE outcome = 'delivered'": "ledger, not known as done with",
    "UPDATE timed_messages SET outcome = 'delivered'": "ledger, done with, but",
    "DELETE FROM interventions": "ledger, done with, but",
    "DELETE FROM interventions WHERE kind = 'cancelled'": "ledger, never delivered",
}


async def test_the_judge_detects_a_tampered_store(tmp_path: Path) -> None:
    survivor = Survivor(tmp_path, Variant("manual", "exact", [1]))
    judge = survivor.judge
    async with survivor.broker() as (_, client):
        for message_id in ("a", "b", "delivered", "forced", "cancelled"):
            delay = {"delay_level": 1} if message_id in ("a", "b") else {"delay_ms": 1_000}
            request = outgoing("b", message_id=message_id) | delay
            judge.sending([request])
            judge.sent(await client.send(TOPIC, **request))
        judge.forcing("forced")
        await client.deliver("forced")
        judge.cancelling("cancelled")
        await client.cancel("cancelled")
        judge.cancelled("cancelled")
    await survivor.recover()
    original = survivor.data / FILE_NAME
    for number, (tampering, found) in enumerate(TAMPERING.items()):
        copy = tmp_path / f"{number}.db"
        shutil.copy(original, copy)
        with closing(sqlite3.connect(copy)) as database, database:
            ((delivered, parked),) = database.execute(
                "SELECT max(delivered_offset), max(parked_offset) FROM deliveries WHERE level NOT NULL"
            )
            database.execute(tampering.format(delivered=delivered, parked=parked))
        faults = list(faults_of_store(copy, survivor.judge))
        assert any(fault.startswith(found) for fault in faults), (tampering, faults)
    assert list(faults_of_store(original, survivor.judge)) == []


DAMAGE: dict[str, Callable[[Path], object]] = {
    "is damaged": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "is 1700000000250-": lambda path: path.rename(path.with_name(f"1700000000251{path.name[13:]}")),
    "does not belong there": lambda path: path.rename(path.with_name("other")),
}


@pytest.mark.parametrize("found", [*DAMAGE])
def test_damaged_files(tmp_path: Path, found: str) -> None:
    path = made().put(tmp_path / "delay")
    assert list(faults_of_files(tmp_path)) == []
    DAMAGE[found](path)
    assert [found in fault for fault in faults_of_files(tmp_path)] == [True]
