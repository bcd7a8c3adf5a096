"""Java consumers report their state, and consume a message on request."""

import json

import pytest

from tests.clients.java.mqadmin import Mqadmin
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import Driver

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.feature("A consumer reports on itself, and consumes a given message", "java-4.9", "java-5.5")
@pytest.mark.parametrize("orderly", [False, True])
async def test_a_consumer_looked_into(
    broker: RemotingBroker, driver: Driver, topic: str, orderly: bool
) -> None:
    sent = await driver.call("send", topic=topic, body="again")
    await driver.call("consume", topic=topic, group=topic, orderly=orderly, failures=0)
    assert (await driver.next(topic)).message_id == sent["message_id"]
    consumer = await broker.consumer_of(topic)

    info = await broker.control.running_info(consumer, group=topic)
    assert info["properties"]["PROP_CONSUMEORDERLY"] == str(orderly).lower()
    assert topic in {one["topic"] for one in info["subscriptionSet"]}
    queues = [json.loads(queue) for queue in info["mqTable"]]
    assert {"topic": topic, "brokerName": "broker-a", "queueId": sent["queue_id"]} in queues

    for message_id in (sent["message_id"], sent["offset_message_id"]):
        done = await broker.control.consume(consumer, message_id, group=topic)
        again = await driver.next(topic)
        assert (again.topic, again.body, again.properties["UNIQ_KEY"]) == (topic, "again", sent["message_id"])
        assert (again.queue_id, again.queue_offset) == (sent["queue_id"], sent["queue_offset"])
        assert done["result"] == "CR_SUCCESS"


@pytest.mark.feature("A consumer reports on itself, and consumes a given message", "java-4.9", "java-5.5")
async def test_a_consumer_that_fails(broker: RemotingBroker, driver: Driver, topic: str) -> None:
    sent = await driver.call("send", topic=topic, body="bad", delay_level=3)
    await driver.call("consume", topic=topic, group=topic, failures=1)
    consumer = await broker.consumer_of(topic)
    await broker.pending(topic)
    [due_ms] = await broker.pending(topic)
    await broker.control.move_to(due_ms)
    assert (await driver.next(topic)).times == 0
    done = await broker.control.consume(consumer, sent["message_id"], group=topic)
    assert done["result"] == "CR_LATER"
    assert (await driver.next(topic)).body == "bad"


@pytest.mark.mqadmin("consumerStatus", "queryMsgById")
@pytest.mark.parametrize("orderly", [False, True])
async def test_a_consumer_looked_into_by_the_command_line(
    broker: RemotingBroker, mqadmin: Mqadmin, java_4_9: Driver, topic: str, orderly: bool
) -> None:
    sent = await java_4_9.call("send", topic=topic, body="again")
    await java_4_9.call("consume", topic=topic, group=topic, orderly=orderly, failures=0)
    assert (await java_4_9.next(topic)).message_id == sent["message_id"]
    consumer = await broker.consumer_of(topic)

    printed = await mqadmin("consumerStatus", "-g", topic, "-i", consumer)
    shown = {
        name.strip(): value.strip()
        for name, _, value in (line.partition(":") for line in printed.splitlines())
    }
    assert shown["PROP_CONSUMEORDERLY"] == str(orderly).lower()
    assert printed.count("#Consumer Subscription#") == 1
    assert topic in printed

    of_topic = () if mqadmin.version == "mqadmin-4.9" else ("-t", topic)
    to_whom = ("-g", topic, "-d", consumer)
    printed = await mqadmin("queryMsgById", *of_topic, "-i", sent["offset_message_id"], *to_whom)
    assert "consumeResult=CR_SUCCESS" in printed
    again = await java_4_9.next(topic)
    assert (again.body, again.queue_offset) == ("again", sent["queue_offset"])
