"""Acknowledgements of single messages, which start on the fast path without a task."""

import asyncio
import logging
import re

import pytest

from mocketmq.errors import StoreUnavailableError
from mocketmq.faults.rule import FaultRule
from mocketmq.remoting.listening import connection
from mocketmq.remoting.wire.command import Command
from tests.doors.remoting.consuming import RESET_OFFSET
from tests.doors.remoting.gates import until
from tests.doors.remoting.popping import ACK, ack, fill, pop, settling
from tests.doors.remoting.test_plain_sends import generally_served
from tests.support.brokers import GROUP, TOPIC
from tests.support.held_writer import HeldWriter
from tests.support.remoting import Remoting, running_remoting


@pytest.mark.interpreted
@pytest.mark.parametrize("is_spent", [False, True])
async def test_plain_acknowledgement_is_served_without_a_task(
    remoting: Remoting,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_spent: bool,
) -> None:
    await fill(remoting, "1", "2")
    handles = [one.handle for one in await pop(remoting.client)]
    if is_spent:
        assert [await ack(remoting.client, handle) for handle in handles] == [0, 0]
    served = generally_served(remoting, monkeypatch)
    answers = []
    for level, handle in zip((logging.INFO, logging.DEBUG), handles, strict=True):
        with caplog.at_level(level, connection.log.name):
            answer = await remoting.client.call(ACK, settling(handle, {}))
        answers.append((answer.code, re.sub(r"offset \d", "", answer.remark or ""), dict(answer.ext)))
    assert served == [ACK]
    assert [code for code, _, _ in answers] == [208, 208] if is_spent else [0, 0]
    assert answers[0] == answers[1]


@pytest.mark.interpreted
async def test_blocked_acknowledgement_gets_a_task(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(remoting, "1")
    [one] = await pop(remoting.client)
    served = generally_served(remoting, monkeypatch)
    refused = await remoting.client.call(ACK, settling(one.handle, {"queueId": 99}))
    assert refused.code == 13
    await remoting.broker.faults.add_rule(FaultRule(do="close", topic="others"))
    assert await ack(remoting.client, one.handle) == 0
    assert served == [ACK, ACK]
    await remoting.broker.faults.clear()
    assert await ack(remoting.client, one.handle) == 208
    assert served == [ACK, ACK]


@pytest.mark.interpreted
async def test_an_acknowledgement_behind_a_reset_waits_for_its_turn(
    remoting: Remoting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(remoting, "1", "2")
    first, second = await pop(remoting.client)
    served = generally_served(remoting, monkeypatch)
    reset = {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"}
    commands = [
        Command(code=ACK, opaque=1_001, ext=settling(first.handle, {})),
        Command(code=RESET_OFFSET, opaque=1_002, ext=reset),
        Command(code=ACK, opaque=1_003, ext=settling(second.handle, {})),
    ]
    answers = [remoting.client.expect(command.opaque) for command in commands]
    remoting.client.send(*commands)
    assert [(await answer).code for answer in answers] == [0, 0, 208]
    assert served == [RESET_OFFSET, ACK]
    assert [one.body for one in await pop(remoting.client)] == ["1", "2"]


@pytest.mark.interpreted
async def test_an_acknowledgement_fails_with_its_transaction_and_the_next_one_runs() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "1")
        [one] = await pop(remoting.client)
        with pytest.MonkeyPatch.context() as patched:
            writer = HeldWriter(remoting.broker, patched)
            answer = remoting.client.ask(ACK, settling(one.handle, {}))
            await until(lambda: writer.held)
            [(_work, waiter)] = writer.held
            waiter.set_exception(StoreUnavailableError("the disk is full"))
            failed = await asyncio.wait_for(answer, None)
            assert (failed.code, failed.remark) == (14, "the disk is full")
        assert await ack(remoting.client, one.handle) == 0
