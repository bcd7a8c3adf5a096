"""Check-backs: when producers are asked about their half messages, and when that fails."""

import asyncio
from collections.abc import Collection, Sequence

import pytest

from mocketmq.broker.consuming.receipt import Receipt
from mocketmq.broker.transactions import check_backs
from mocketmq.broker.transactions.check_answers import CheckAnswers
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
from tests.support.remoting import running_remoting


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moves wait for producers that a busy machine holds up."""
    monkeypatch.setattr(check_backs, "ANSWER_S", PATIENCE_S)


# Check-backs


async def test_the_producer_is_asked_with_the_message_and_what_its_answer_needs() -> None:
    async with running_remoting() as remoting:
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
        assert broker.transactions.check_backs.asked == 1


async def test_the_first_check_comes_after_the_timeout_others_after_intervals() -> None:
    async with running_remoting() as remoting:
        client, broker = remoting.client, remoting.broker
        await produce(client)
        await prepare(client)
        answering = answer_with(client, UNKNOWN)
        started_us = broker.clock.now_us()
        for number in range(15):
            due_us = started_us + 6 * S + number * 60 * S
            await broker.mover.move_to(due_us - 1)
            assert broker.transactions.check_backs.asked == number
            await broker.mover.move_to(due_us)
            assert broker.transactions.check_backs.asked == number + 1
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
        assert (await visible(broker), broker.transactions.half_messages.abandoned) == ([], 1)
        assert broker.transactions.check_backs.next_due_us() is None


async def test_one_long_move_asks_as_often_and_the_producer_may_decide_at_any_check() -> None:
    async with running_remoting() as remoting:
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


async def test_a_move_does_not_wait_long_for_a_producer_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_backs, "ANSWER_S", 0.5)
    awaited: list[int] = []
    wait = CheckAnswers.wait

    async def noted(answers: CheckAnswers, offsets: Sequence[int], longest_s: float) -> Collection[int]:
        awaited.append(len(offsets))
        return await wait(answers, offsets, longest_s)

    monkeypatch.setattr(CheckAnswers, "wait", noted)
    async with running_remoting() as remoting:
        await produce(remoting.client)
        await prepare(remoting.client)
        await remoting.broker.mover.advance(3_600 * S)
        assert awaited == [1, *[0] * 14]
        assert (remoting.client.pushes.qsize(), len(await undecided(remoting))) == (15, 1)
        half = await prepare(remoting.client)  # the next move gives it another chance
        moving = asyncio.create_task(remoting.broker.mover.advance(6 * S))
        for _ in range(16):
            await question(remoting.client)
        await end(remoting.client, half, COMMIT)
        await moving
        assert bodies(await visible(remoting.broker)) == ["half"]


async def test_producers_are_asked_in_turns_and_only_those_of_the_group() -> None:
    async with running_remoting() as remoting, remoting.another() as two, remoting.another() as other:
        one = remoting.client
        await produce(one)
        await produce(two)
        await produce(other, "others")
        await prepare(one)
        answering = [answer_with(client, UNKNOWN) for client in (one, two, other)]
        await remoting.broker.mover.advance((6 + 13 * 60) * S)
        assert [len(await stop(each)) for each in answering] == [7, 7, 0]


async def test_checks_that_find_no_producer_count() -> None:
    async with running_remoting() as remoting:
        await prepare(remoting.client)
        await remoting.broker.mover.advance((6 + 14 * 60) * S)
        assert (remoting.broker.transactions.check_backs.asked, await undecided(remoting)) == (0, [])
        await produce(remoting.client)
        await remoting.broker.mover.advance(60 * S)
        assert (remoting.client.pushes.empty(), len(await undecided(remoting))) == (True, 1)


async def test_an_immunity_of_its_own_and_settings_change_when_is_asked() -> None:
    settings = {"transaction_timeout_us": 2 * S, "transaction_check_interval_us": 5 * S}
    async with running_remoting(**settings, transaction_check_max=2) as remoting:
        broker = remoting.broker
        await prepare(remoting.client, CHECK_IMMUNITY_TIME_IN_SECONDS="30")
        assert broker.transactions.check_backs.next_due_us() == broker.clock.now_us() + 30 * S
        await prepare(remoting.client, CHECK_IMMUNITY_TIME_IN_SECONDS="-1")
        assert broker.transactions.check_backs.next_due_us() == broker.clock.now_us() + 2 * S
        await broker.mover.advance(11 * S)
        assert await undecided(remoting) == []
        await broker.mover.advance(1 * S)
        assert [one["TRANSACTION_CHECK_TIMES"] for one in await undecided(remoting)] == ["2"]


async def test_in_real_time_nothing_waits_for_a_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_backs, "ANSWER_S", 10 * PATIENCE_S)
    async with running_remoting(clock="real", transaction_timeout_us=S // 100) as remoting:
        await produce(remoting.client)
        half = await prepare(remoting.client)
        ext, _ = await question(remoting.client)
        async with asyncio.timeout(PATIENCE_S):
            await remoting.broker.mover.advance(1)
        assert ext["offsetMsgId"] == half["msgId"]


# What goes wrong


async def test_a_check_that_cannot_be_stored_comes_later_and_asks_nobody_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_remoting() as remoting:
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
async def test_a_decision_that_cannot_be_stored_is_refused_and_can_be_made_again(
    monkeypatch: pytest.MonkeyPatch, decision: int
) -> None:
    async with running_remoting() as remoting:
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
        assert remoting.broker.transactions.half_messages.open() == []


async def test_what_is_decided_while_its_check_is_being_stored_is_not_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_remoting() as remoting:
        broker, client = remoting.broker, remoting.client
        await produce(client)
        half = await prepare(client)
        read = broker.transactions.half_messages.halves

        async def decide_first(takes: Sequence[Receipt]) -> list[HalfMessage]:
            monkeypatch.undo()
            halves = await read(takes)
            await end(client, half, COMMIT)
            return halves

        monkeypatch.setattr(broker.transactions.half_messages, "halves", decide_first)
        await broker.mover.advance(6 * S)
        assert (client.pushes.empty(), broker.transactions.check_backs.asked) == (True, 0)
        assert bodies(await visible(broker)) == ["half"]


async def test_a_move_hears_all_that_are_asked_about_at_one_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mocketmq.broker.transactions.check_backs.BATCH", 3)
    async with running_remoting() as remoting:
        await produce(remoting.client)
        for number in range(10):
            await prepare(remoting.client, str(number).encode())
        answering = answer_with(remoting.client, COMMIT)
        await remoting.broker.mover.advance(6 * S)
        assert sorted(bodies(await visible(remoting.broker))) == [str(number) for number in range(10)]
        await stop(answering)


async def test_very_many_are_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mocketmq.broker.transactions.check_backs.BATCH", 3)
    async with running_remoting(clock="real", transaction_timeout_us=S // 2) as remoting:
        await produce(remoting.client)
        for number in range(10):
            await prepare(remoting.client, str(number).encode())
        asked = [(await question(remoting.client))[1].body for _ in range(10)]
        assert asked == [str(number).encode() for number in range(10)]
