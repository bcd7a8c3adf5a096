"""Delayed messages with RocketMQ's clients for Go and Rust."""

import time

import pytest

from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import Driver
from tests.clients.remoting.test_delaying import HOUR_MS, TIMERS, arrives_at, arrives_at_each_level

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.feature("Delay levels", "go", "rust")
@pytest.mark.feature("All 18 levels, to the millisecond", "go", "rust")
async def test_every_level(broker: RemotingBroker, driver: Driver, single: str) -> None:
    await arrives_at_each_level(broker, driver, single)


@pytest.mark.feature("`__STARTDELIVERTIME`", "go", "rust")
@pytest.mark.feature(TIMERS, "go", "rust")
async def test_any_time(broker: RemotingBroker, driver: Driver, single: str) -> None:
    await driver.call("consume", group=single, topic=single)
    instant = str(int(time.time() * 1_000) + HOUR_MS)
    for name, text in {
        "__STARTDELIVERTIME": instant,
        "TIMER_DELIVER_MS": instant,
        "TIMER_DELAY_SEC": "90",
        "TIMER_DELAY_MS": "1234567",
    }.items():
        await driver.call("send", topic=single, body=name, properties={name: text})
        [due_ms] = await broker.pending(single)
        assert await arrives_at(broker, driver, single, due_ms) == name


@pytest.mark.feature("Delayed messages are recalled", "rust")
async def test_recall(broker: RemotingBroker, rust: Driver, topic: str) -> None:
    sent = [
        await rust.call("send", topic=topic, body=body, properties={"TIMER_DELAY_SEC": "90"})
        for body in ("unwanted", "wanted")
    ]
    recalled = await rust.call("recall", topic=topic, recall_handle=sent[0]["recall_handle"])
    assert recalled == sent[0]["message_id"]
    await broker.control.advance("90s")
    [message] = await broker.control.receive(topic, group="GID_billing", max_messages=9)
    assert message["body"] == "wanted"
