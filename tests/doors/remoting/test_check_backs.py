"""Check-backs: when the broker asks producers about half messages, and failures of check-backs."""

import asyncio
from collections.abc import Collection, Sequence

import pytest

from mocketmq.broker.consuming.receipt import Receipt
from mocketmq.broker.transactions.check_backs import CheckAnswers
from mocketmq.broker.transactions.half_messages import HalfMessage
from mocketmq.errors import StoreUnavailableError
from tests.doors.remoting.half_messages import (
    COMMIT,
    END,
    HALF,
    ROLLBACK,
    UNKNOWN,
    answer_with,
    end,
    ending,
    prepare,
    produce,
    question,
    stop,
    undecided,
)
from tests.doors.remoting.producing import UNIQUE, parted, pulled
from tests.support.brokers import TOPIC, Refusing, S, bodies, visible
from tests.support.patience import PATIENCE_S
from tests.support.remoting import patient_remoting

# Check-backs


async def test_check_back_carries_the_message_and_its_ids() -> None:
    async with patient_remoting() as remoting:
        client, broker = remoting.client, remoting.broker
        await produce(client)
        half = await prepare(client)
        answering = asyncio.create_task(broker.mover.advance(6 * S))
        ext, record = await question(client)
        assert ext == {
            "topic": TOPIC,
            "tranStateTableOffset": half["queueOffset"],
            "commitLogOffset": str(int(half["msgId"][16:], 16)),
            "msgId": UNIQUE,
            "transactionId": UNIQUE,
            "offsetMsgId": half["msgId"],
        }
        assert (record.topic, record.queue_id, record.body, record.sys_flag) == (TOPIC, 2, b"half", 0)
        assert parted(record.properties) == {
            **HALF,
            "CLUSTER": "DefaultCluster",
            "REAL_TOPIC": TOPIC,
            "REAL_QID": "2",
            "TRANSACTION_CHECK_TIMES": "1",
        }
        await client.ok(END, ending(half, COMMIT, fromTransactionCheck="true"))
        await answering
        [record] = await pulled(client, queue_id=2)
        assert parted(record.properties)["TRANSACTION_CHECK_TIMES"] == "1"
        assert broker.check_backs.asked == 1


async def test_the_first_check_comes_after_the_timeout_others_after_intervals() -> None:
    async with patient_remoting() as remoting:
        client, broker = remoting.client, remoting.broker
        await produce(client)
        await prepare(client)
        answering = answer_with(client, UNKNOWN)
        started_us = broker.clock.now_us()
        for number in range(15):
            due_us = started_us + 6 * S + number * 60 * S
            await broker.mover.move_to(due_us - 1)
            assert broker.check_backs.asked == number
            await broker.mover.move_to(due_us)
            assert broker.check_backs.asked == number + 1
        assert await undecided(remoting) == []
        await broker.mover.advance(60 * S)
        [given_up] = await undecided(remoting)
        assert given_up == {
            **HALF,
            "CLUSTER": "DefaultCluster",
            "REAL_TOPIC": TOPIC,
            "REAL_QID": "2",
            "TRANSACTION_CHECK_TIMES": "15",
        }
        await broker.mover.advance(3_600 * S)
        assert len(await stop(answering)) == 15
        assert (await visible(broker), broker.half_messages.abandoned) == ([], 1)
        assert broker.check_backs.next_due_us() is None


async def test_long_move_sends_every_check_until_a_decision() -> None:
    async with patient_remoting() as remoting:
        client, broker = remoting.client, remoting.broker
        await produce(client)
        started_us = broker.clock.now_us()
        half = await prepare(client)
        moving = asyncio.create_task(broker.mover.advance(3_600 * S))
        for _ in range(2):
            await question(client)
            await end(client, half, UNKNOWN)
        await question(client)
        await end(client, half, COMMIT)
        await moving
        [message] = await visible(broker)
        assert message.store_us == started_us + 126 * S  # the instant of the check
        assert (client.pushes.empty(), await undecided(remoting)) == (True, [])


async def test_move_limits_its_wait_for_a_hanging_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    awaited: list[int] = []
    wait = CheckAnswers.wait

    async def noted(answers: CheckAnswers, offsets: Sequence[int], longest_s: float) -> Collection[int]:
        awaited.append(len(offsets))
        return await wait(answers, offsets, longest_s)

    monkeypatch.setattr(CheckAnswers, "wait", noted)
    async with patient_remoting() as remoting:
        remoting.broker.check_backs.answer_s = 0.5
        await produce(remoting.client)
        await prepare(remoting.client)
        await remoting.broker.mover.advance(3_600 * S)
        assert awaited == [1, *[0] * 14]
        assert (remoting.client.pushes.qsize(), len(await undecided(remoting))) == (15, 1)
        half = await prepare(remoting.client)  # the next clock move checks it back again
        moving = asyncio.create_task(remoting.broker.mover.advance(6 * S))
        for _ in range(16):
            await question(remoting.client)
        await end(remoting.client, half, COMMIT)
        await moving
        assert bodies(await visible(remoting.broker)) == ["half"]


async def test_check_backs_rotate_over_producers_of_the_group() -> None:
    async with patient_remoting() as remoting, remoting.another() as two, remoting.another() as other:
        one = remoting.client
        await produce(one)
        await produce(two)
        await produce(other, "others")
        await prepare(one)
        answering = [answer_with(client, UNKNOWN) for client in (one, two, other)]
        await remoting.broker.mover.advance((6 + 13 * 60) * S)
        assert [len(await stop(each)) for each in answering] == [7, 7, 0]


async def test_checks_without_a_producer_count() -> None:
    async with patient_remoting() as remoting:
        await prepare(remoting.client)
        await remoting.broker.mover.advance((6 + 14 * 60) * S)
        assert (remoting.broker.check_backs.asked, await undecided(remoting)) == (0, [])
        await produce(remoting.client)
        await remoting.broker.mover.advance(60 * S)
        assert (remoting.client.pushes.empty(), len(await undecided(remoting))) == (True, 1)


async def test_the_first_check_back_follows_the_messages_immunity_or_the_settings() -> None:
    settings = {"transaction_timeout_us": 2 * S, "transaction_check_interval_us": 5 * S}
    async with patient_remoting(**settings, transaction_check_max=2) as remoting:
        broker = remoting.broker
        await prepare(remoting.client, CHECK_IMMUNITY_TIME_IN_SECONDS="30")
        assert broker.check_backs.next_due_us() == broker.clock.now_us() + 30 * S
        await prepare(remoting.client, CHECK_IMMUNITY_TIME_IN_SECONDS="-1")
        assert broker.check_backs.next_due_us() == broker.clock.now_us() + 2 * S
        await broker.mover.advance(11 * S)
        assert await undecided(remoting) == []
        await broker.mover.advance(1 * S)
        assert [one["TRANSACTION_CHECK_TIMES"] for one in await undecided(remoting)] == ["2"]


async def test_real_clock_does_not_wait_for_producers() -> None:
    async with patient_remoting(clock="real", transaction_timeout_us=S // 100) as remoting:
        remoting.broker.check_backs.answer_s = 10 * PATIENCE_S
        await produce(remoting.client)
        half = await prepare(remoting.client)
        ext, _ = await question(remoting.client)
        async with asyncio.timeout(PATIENCE_S):
            await remoting.broker.mover.advance(1)
        assert ext["offsetMsgId"] == half["msgId"]


# Failures


async def test_unstored_check_back_is_delayed_and_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with patient_remoting() as remoting:
        await produce(remoting.client)
        await prepare(remoting.client)
        async with Refusing(remoting.broker, monkeypatch):
            with pytest.raises(StoreUnavailableError):
                await remoting.broker.mover.advance(6 * S)
        assert remoting.client.pushes.empty()
        answering = answer_with(remoting.client, COMMIT)
        await remoting.broker.mover.advance(6 * S)
        assert len(await stop(answering)) == 1
        assert bodies(await visible(remoting.broker)) == ["half"]


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
async def test_failed_decision_is_refused_and_can_be_repeated(
    monkeypatch: pytest.MonkeyPatch, decision: int
) -> None:
    async with patient_remoting() as remoting:
        half = await prepare(remoting.client)
        async with Refusing(remoting.broker, monkeypatch):
            answer = await remoting.client.call(END, ending(half, decision))
            assert answer.code == 14
        assert await visible(remoting.broker) == []
        await produce(remoting.client)
        answering = answer_with(remoting.client, decision)
        await remoting.broker.mover.advance(6 * S)
        assert len(await stop(answering)) == 1
        assert len(await visible(remoting.broker)) == (decision == COMMIT)
        assert remoting.broker.half_messages.open() == []


async def test_a_decision_during_the_commit_of_its_check_prevents_the_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with patient_remoting() as remoting:
        broker, client = remoting.broker, remoting.client
        await produce(client)
        half = await prepare(client)
        read = broker.half_messages.halves

        async def decide_first(takes: Sequence[Receipt]) -> list[HalfMessage]:
            monkeypatch.undo()
            halves = await read(takes)
            await end(client, half, COMMIT)
            return halves

        monkeypatch.setattr(broker.half_messages, "halves", decide_first)
        await broker.mover.advance(6 * S)
        assert (client.pushes.empty(), broker.check_backs.asked) == (True, 0)
        assert bodies(await visible(broker)) == ["half"]


async def test_a_move_waits_for_all_checks_of_one_instant() -> None:
    async with patient_remoting() as remoting:
        remoting.broker.check_backs.batch = 3
        await produce(remoting.client)
        for number in range(10):
            await prepare(remoting.client, str(number).encode())
        answering = answer_with(remoting.client, COMMIT)
        await remoting.broker.mover.advance(6 * S)
        assert sorted(bodies(await visible(remoting.broker))) == [str(number) for number in range(10)]
        await stop(answering)


async def test_many_producers_are_checked_back() -> None:
    async with patient_remoting(clock="real", transaction_timeout_us=S // 2) as remoting:
        remoting.broker.check_backs.batch = 3
        await produce(remoting.client)
        for number in range(10):
            await prepare(remoting.client, str(number).encode())
        asked = [(await question(remoting.client))[1].body for _ in range(10)]
        assert asked == [str(number).encode() for number in range(10)]
