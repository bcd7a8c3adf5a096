"""Transactions over remoting: half messages, decisions by 37, check-backs by 39, and delays."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mocketmq.message.message import Message
from mocketmq.message.message_id import offset_message_id
from mocketmq.message.names import CHECKED_HALF_GROUP, CHECKED_HALF_TOPIC
from mocketmq.remoting.wire.record import decode_records
from mocketmq.store.database import FILE_NAME
from tests.doors.remoting.half_messages import (
    COMMIT,
    END,
    HALF,
    NOT_FOUND,
    ROLLBACK,
    UNKNOWN,
    answer_with,
    end,
    ending,
    prepare,
    produce,
    refusal,
    stop,
    undecided,
)
from tests.doors.remoting.producing import UNIQUE, V1, V2, parted, pulled, refused, sent
from tests.support.brokers import TOPIC, S, bodies, rows, visible
from tests.support.remoting import patient_remoting

# Decisions


@pytest.mark.parametrize("code", [V1, V2])
async def test_committed_half_message_looks_like_upstreams(code: int) -> None:
    async with patient_remoting() as remoting:
        client = remoting.client
        await sent(client)  # so that the log offset is not 0
        half = await prepare(client, b"half", code)
        assert half == {
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "msgId": offset_message_id(client.address and remoting.server.broker_address, 1),
            "queueId": "2",
            "queueOffset": "0",
            "transactionId": UNIQUE,
        }
        assert await pulled(client, queue_id=2) == []
        await end(client, half, COMMIT)
        [record] = await pulled(client, queue_id=2)
        assert (record.body, record.queue_offset, record.log_offset) == (b"half", 0, 2)
        assert (record.sys_flag, record.prepared_offset) == (8, 1)
        assert parted(record.properties) == {
            **HALF,
            "CLUSTER": "DefaultCluster",
            "REAL_TOPIC": TOPIC,
            "REAL_QID": "2",
        }
        transactions = remoting.broker.half_messages
        assert (transactions.prepared, transactions.committed, transactions.rolled_back) == (1, 1, 0)


async def test_a_rolled_back_message_is_never_visible_nor_checked() -> None:
    async with patient_remoting() as remoting:
        await produce(remoting.client)
        half = await prepare(remoting.client)
        await end(remoting.client, half, ROLLBACK)
        await remoting.broker.mover.advance(3_600 * S)
        assert (await visible(remoting.broker), await undecided(remoting)) == ([], [])
        assert (remoting.client.pushes.empty(), remoting.broker.half_messages.rolled_back) == (
            True,
            1,
        )


async def test_undecided_answer_changes_nothing() -> None:
    async with patient_remoting() as remoting:
        half = await prepare(remoting.client)
        await end(remoting.client, half, UNKNOWN)
        assert await visible(remoting.broker) == []
        await end(remoting.client, half, COMMIT)
        assert bodies(await visible(remoting.broker)) == ["half"]


async def test_oneway_decision_takes_effect() -> None:
    async with patient_remoting() as remoting:
        half = await prepare(remoting.client)
        remoting.client.oneway(END, ending(half, COMMIT))
        remoting.client.oneway(END, ending(half, COMMIT, producerGroup="wrong"))
        while not remoting.broker.half_messages.committed:
            await prepare(remoting.client)
        assert bodies(await visible(remoting.broker)) == ["half"]


@pytest.mark.parametrize("first", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("second", [COMMIT, ROLLBACK])
async def test_a_half_message_is_decided_once(first: int, second: int) -> None:
    async with patient_remoting() as remoting:
        client = remoting.client
        half = await prepare(client)
        answers = await asyncio.gather(
            *(client.call(END, ending(half, decision)) for decision in (first, second, second))
        )
        assert sorted(answer.code for answer in answers) == [0, 1, 1]
        assert {answer.remark for answer in answers} == {None, NOT_FOUND}
        assert await refusal(client, half, second) == NOT_FOUND
        assert len(await visible(remoting.broker)) == remoting.broker.half_messages.committed


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"producerGroup": "others"}, "The producer group wrong"),
        ({"tranStateTableOffset": "1"}, "The transaction state table offset wrong"),
        ({"commitLogOffset": "0"}, NOT_FOUND),
        ({"commitLogOffset": "-1"}, NOT_FOUND),
        ({"commitLogOffset": str((1 << 63) - 1)}, NOT_FOUND),
        ({"commitOrRollback": "4"}, "commitOrRollback field wrong"),
        ({"commitOrRollback": "-8"}, "commitOrRollback field wrong"),
        ({"commitOrRollback": "x"}, "commitOrRollback is 'x'; allowed: a whole number of 32 bits"),
        ({"producerGroup": None}, "the custom field <producerGroup> is null"),
        ({"msgId": None}, "the custom field <msgId> is null"),
    ],
)
@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
async def test_decision_with_a_wrong_message_is_refused(
    wrong: dict[str, Any], sentence: str, decision: int
) -> None:
    async with patient_remoting() as remoting:
        await sent(remoting.client)
        half = await prepare(remoting.client)
        assert await refusal(remoting.client, half, decision, **wrong) == sentence
        assert bodies(await visible(remoting.broker)) == ["hello"]
        await end(remoting.client, half, decision)


async def test_popped_half_messages_are_not_checked_or_decided_by_offset() -> None:
    async with patient_remoting() as remoting:
        half = await prepare(remoting.client)
        popped = await remoting.broker.popped_halves.prepare(Message(TOPIC, b"popped"), 20 * S)
        offsets = {
            "commitLogOffset": popped.stored.log_offset,
            "tranStateTableOffset": popped.stored.queue_offset,
        }
        assert await refusal(remoting.client, half, **offsets) == NOT_FOUND
        await produce(remoting.client)
        await end(remoting.client, half, COMMIT)
        await remoting.broker.mover.advance(3_600 * S)
        assert remoting.client.pushes.empty()


@pytest.mark.parametrize("fields", [{"sys_flag": 4}, {"sys_flag": 12}, {"properties": {"TRAN_MSG": "True"}}])
async def test_flag_or_property_makes_a_half_message(
    fields: dict[str, Any],
) -> None:
    async with patient_remoting() as remoting:
        half = await sent(remoting.client, **fields)
        assert await visible(remoting.broker) == []
        await end(remoting.client, half, COMMIT)
        [record] = await pulled(remoting.client)
        assert record.sys_flag == 8
        assert parted(record.properties)["PGROUP"] == "makers"


async def test_a_consumers_retry_of_a_committed_message_is_no_half_message() -> None:
    async with patient_remoting() as remoting:
        await sent(
            remoting.client, properties={**HALF, "DELAY": "1"}, topic="%RETRY%billing", reconsume_times=1
        )
        await remoting.broker.mover.advance(1 * S)
        assert bodies(await visible(remoting.broker, "%RETRY%billing")) == ["hello"]


@pytest.mark.parametrize("seconds", ["x", "-2", "1.5", "31536001", "9" * 40, "٣"])
async def test_invalid_immunity_time_is_refused(seconds: str) -> None:
    async with patient_remoting() as remoting:
        properties = {**HALF, "CHECK_IMMUNITY_TIME_IN_SECONDS": seconds}
        code, sentence = await refused(remoting.client, properties=properties)
        assert code == 13
        assert "a whole number of seconds from 0 to 31536000, or -1" in sentence
        assert remoting.broker.registry.topics.find_topic(CHECKED_HALF_TOPIC) is None


async def test_no_client_consumes_half_messages() -> None:
    async with patient_remoting() as remoting:
        await prepare(remoting.client)
        for topic, group in ((CHECKED_HALF_TOPIC, "g"), (TOPIC, CHECKED_HALF_GROUP)):
            ext = {"consumerGroup": group, "topic": topic, "queueId": "0", "queueOffset": "0"}
            ext |= {"maxMsgNums": "1", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0"}
            answer = await remoting.client.call(11, ext | {"subscription": "*", "subVersion": "0"})
            assert (answer.code, answer.body) == (16, b"")


# Delays


async def test_a_delayed_half_message_is_delayed_after_its_commit() -> None:
    async with patient_remoting() as remoting:
        broker, client = remoting.broker, remoting.client
        level = await prepare(client, b"level", DELAY="2")
        timed = await prepare(client, b"timed", TIMER_DELAY_MS="20000")
        await broker.mover.advance(4 * S)
        for half in (level, timed):
            await end(client, half, COMMIT)
        assert await visible(broker) == []
        await broker.mover.advance(5 * S)
        assert bodies(await visible(broker)) == ["level"]
        await broker.mover.advance(11 * S)
        records = await pulled(client, queue_id=2)
        assert [record.body for record in records] == [b"level", b"timed"]
        for record, half in zip(records, (level, timed), strict=True):
            assert (record.sys_flag, record.prepared_offset) == (8, int(half["msgId"][16:], 16))


async def test_delay_counts_from_the_committing_check() -> None:
    async with patient_remoting() as remoting:
        broker, client = remoting.broker, remoting.client
        await produce(client)
        started_us = broker.clock.now_us()
        await prepare(client, DELAY="1")
        answering = answer_with(client, COMMIT)
        await broker.mover.advance(7 * S)
        assert len(await stop(answering)) == 1
        [message] = await visible(broker)
        assert message.store_us == started_us + 7 * S


# Restarts and resets


async def test_half_messages_and_decisions_survive_a_restart(tmp_path: Path) -> None:
    async with patient_remoting(data=str(tmp_path)) as remoting:
        await sent(remoting.client)
        committed, open_one = await prepare(remoting.client), await prepare(remoting.client, b"open")
        await end(remoting.client, committed, COMMIT)
        await remoting.broker.mover.advance((6 + 60) * S)
    async with patient_remoting(data=str(tmp_path)) as remoting:
        client, broker = remoting.client, remoting.broker
        [record] = await pulled(client, queue_id=2)
        assert (record.sys_flag, record.prepared_offset) == (8, 1)
        await produce(client)
        answering = answer_with(client, UNKNOWN)
        await broker.mover.advance(60 * S)
        [asked] = await stop(answering)
        [record] = decode_records(asked.body)
        assert parted(record.properties)["TRANSACTION_CHECK_TIMES"] == "3"
        await end(client, open_one, COMMIT)
        assert bodies(await visible(broker)) == ["hello", "half", "open"]
    assert rows(tmp_path, "SELECT outcome, times FROM receipts ORDER BY log_offset") == [
        {"outcome": "committed", "times": 0},
        {"outcome": "committed", "times": 3},
    ]


async def test_checks_missed_while_down_follow_one_interval_later(tmp_path: Path) -> None:
    async with patient_remoting(data=str(tmp_path)) as remoting:
        await prepare(remoting.client)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as store, store:
        store.execute("UPDATE receipts SET visible_us = 1")
    async with patient_remoting(data=str(tmp_path)) as remoting:
        await produce(remoting.client)
        await remoting.broker.mover.advance(60 * S - 1)
        assert remoting.broker.check_backs.asked == 0
        answering = answer_with(remoting.client, COMMIT)
        await remoting.broker.mover.advance(1)
        assert len(await stop(answering)) == 1
        assert bodies(await visible(remoting.broker)) == ["half"]


@pytest.mark.parametrize("topic", [None, TOPIC])
async def test_a_reset_forgets_half_messages(topic: str | None) -> None:
    async with patient_remoting() as remoting:
        client, broker = remoting.client, remoting.broker
        await produce(client)
        half = await prepare(client)
        await broker.mover.advance(1 * S)
        await sent(client, b"other", properties=HALF, topic="other")
        if topic is None:
            await broker.reset.all()
        else:
            await broker.reset.topic(topic)
        assert await refusal(client, half) == NOT_FOUND
        answering = answer_with(client, COMMIT)
        await broker.mover.advance(7 * S)
        assert len(await stop(answering)) == (0 if topic is None else 1)
        assert bodies(await visible(broker, "other")) == ([] if topic is None else ["other"])


async def test_a_reset_of_a_topic_forgets_its_given_up_half_messages() -> None:
    async with patient_remoting() as remoting:
        for topic in (TOPIC, "other"):
            await sent(remoting.client, properties=HALF, topic=topic)
        await remoting.broker.mover.advance(3_600 * S)
        assert len(await undecided(remoting)) == 2
        await remoting.broker.reset.topic(TOPIC)
        assert [one["REAL_TOPIC"] for one in await undecided(remoting)] == ["other"]
