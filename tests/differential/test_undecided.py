"""The producer that answers check-backs knows whether an answer may have come too late."""

import asyncio

import pytest

from mocketmq.remoting.wire.codes import RequestCode
from tests.differential.undecided import LATE_S, UndecidedProducer
from tests.doors.remoting.half_messages import prepare
from tests.support.brokers import S
from tests.support.patience import PATIENCE_S
from tests.support.remoting import patient_remoting


@pytest.mark.asyncio
async def test_answers_in_time_are_not_late() -> None:
    async with patient_remoting() as remoting, remoting.another() as client:
        producer = UndecidedProducer(client, lambda: 0.0)
        await producer.produce("makers", "1", ["wrong group", "do not know", "commit"])
        await prepare(remoting.client, b"1")
        for wait_s in (6, 60, 60):
            await remoting.broker.mover.advance(wait_s * S)
        assert len(await producer.checks("1")) == 3
        assert (producer.stalled_s, producer.reaction_s, producer.was_late) == (0, 0, False)
        await producer.close()


@pytest.mark.asyncio
async def test_a_broker_that_reacts_late_is_noted() -> None:
    now_s = 0.0
    async with patient_remoting() as remoting, remoting.another() as client:
        producer = UndecidedProducer(client, lambda: now_s)
        await producer.produce("makers", "1", ["commit"])
        await prepare(remoting.client, b"1")
        moving = asyncio.create_task(remoting.broker.mover.advance(6 * S))
        [check] = await producer.checks("1")
        now_s = 2 * LATE_S
        assert check.answer
        assert (await check.answer).code == 0
        assert producer.reaction_s == 2 * LATE_S
        assert producer.was_late
        await moving
        await producer.close()


@pytest.mark.asyncio
async def test_a_process_that_does_not_run_is_noted() -> None:
    now_s = 0.0
    async with patient_remoting() as remoting:
        producer = UndecidedProducer(remoting.client, lambda: now_s)
        await remoting.client.call(RequestCode.GET_BROKER_RUNTIME_INFO)
        now_s = 2 * LATE_S
        async with asyncio.timeout(PATIENCE_S):
            while not producer.was_late:  # noqa: ASYNC110 # no event tells
                await asyncio.sleep(0)
        assert (producer.stalled_s > LATE_S, producer.reaction_s) == (True, 0)
        await producer.close()
