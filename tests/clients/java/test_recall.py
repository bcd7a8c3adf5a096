"""Recalling messages with RocketMQ's Java client of 5.5."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.java.building import java_command
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import ClientError, Driver, running_driver
from tests.clients.remoting.test_delaying import HOUR_MS

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def recalling(
    broker: RemotingBroker,
    built: None,  # noqa: ARG001
    home: Path,
) -> AsyncIterator[Driver]:
    """A producer."""
    command = (*java_command("java-5.5", home), "rocketmq5.RecallDriver")
    async with running_driver(command, home, name_server=broker.name_server) as driver:
        yield driver


@pytest.mark.feature("Delayed messages are recalled", "java-5.5")
@pytest.mark.parametrize("name", ["TIMER_DELAY_SEC", "TIMER_DELIVER_MS", "__STARTDELIVERTIME"])
async def test_recall(broker: RemotingBroker, recalling: Driver, topic: str, name: str) -> None:
    instant_ms = int(time.time() * 1_000) + HOUR_MS
    text = "3600" if name == "TIMER_DELAY_SEC" else str(instant_ms)
    sent = [
        await recalling.call("send", topic=topic, body=body, properties={name: text})
        for body in ("unwanted", "wanted")
    ]
    for _ in range(2):  # the message is already recalled
        recalled = await recalling.call("recall", topic=topic, handle=sent[0]["handle"])
        assert recalled == sent[0]["message_id"]
    [due_ms] = await broker.pending(topic)
    await broker.control.move_to(due_ms)
    [message] = await broker.control.receive(topic, group="GID_billing", max_messages=9)
    assert message["body"] == "wanted"
    assert (await broker.control.message(sent[0]["message_id"]))["state"] == "cancelled"
    with pytest.raises(ClientError, match="recall failed, timestamp invalid"):
        await recalling.call("recall", topic=topic, handle=sent[1]["handle"])


@pytest.mark.feature("Delayed messages are recalled", "java-5.5")
async def test_without_a_due_time_or_with_a_level_there_is_no_handle(recalling: Driver, topic: str) -> None:
    for properties in ({}, {"DELAY": "17"}):
        sent = await recalling.call("send", topic=topic, body="no handle", properties=properties)
        assert "handle" not in sent
