"""Requests, replies, traces and reports of consumers, with RocketMQ's clients for Go and Rust."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from mocketmq import BrokerError
from tests.clients.remoting import traces
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import WAIT_S, Driver, running_driver
from tests.clients.remoting.traces import NORMAL, Traces

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"


@pytest_asyncio.fixture(loop_scope="session")
async def replier(broker: RemotingBroker, home: Path, go_client: tuple[str, ...]) -> AsyncIterator[Driver]:
    """A client in its own process that replies."""
    async with running_driver(go_client, home, name_server=broker.name_server) as driver:
        yield driver


@pytest.mark.feature("Request and reply", "go")
async def test_replies(broker: RemotingBroker, go: Driver, replier: Driver, topic: str) -> None:
    await broker.control.put_topic(topic)
    await go.call("send", topic=topic, body="here I am")
    await known(broker, "GID_go")
    await replier.call("reply", topic=topic, group=topic)
    reply = await go.call("request", topic=topic, body="what?")
    assert (reply["topic"], reply["body"]) == (REPLY_TOPIC, "what?")
    assert {"CORRELATION_ID", "REPLY_TO_CLIENT", "PUSH_REPLY_TIME", "ARRIVE_TIME"} <= reply[
        "properties"
    ].keys()
    [stored] = (await broker.control.message(reply["properties"]["UNIQ_KEY"]))["records"]
    assert (stored["topic"], stored["body"]) == (REPLY_TOPIC, "what?")

    assert await go.call("request_async", topic=topic, body="and then?") == "and then?"
    bodies = [f"question {n}" for n in range(50)]
    replies = await asyncio.gather(*(go.call("request", topic=topic, body=body) for body in bodies))
    assert [one["body"] for one in replies] == bodies


async def known(broker: RemotingBroker, group: str) -> None:
    """Wait until the broker knows a producer of the group, which sends heartbeats every 30 s."""
    async with asyncio.timeout(WAIT_S):
        while not any(group in one["producer_groups"] for one in await broker.control.clients()):
            pass


@pytest.mark.feature("Message trace", "go")
async def test_trace(broker: RemotingBroker, go: Driver, topic: str) -> None:
    await broker.control.put_topic(topic)
    found = Traces(broker, traces.TOPIC)
    message = await go.call("trace", topic=topic, group=topic, tag="a", keys=["k1"], body="hello")
    about = {"message_id": message["message_id"]}
    sent, before, after = await found.of("Pub", "SubBefore", "SubAfter", **about)
    assert (sent["region"], sent["group"], sent["topic"]) == ("DefaultRegion", topic, topic)
    assert (sent["tags"], sent["keys"], sent["body_length"]) == ("a", "k1", "5")
    assert (sent["kind"], sent["success"]) == (NORMAL, "true")
    assert sent["offset_message_id"] == message["offset_message_id"]
    assert (before["group"], before["times"], before["keys"]) == (topic, "0", "k1")
    assert (after["request_id"], after["success"]) == (before["request_id"], "true")


@pytest.mark.feature("A consumer reports on itself, and consumes a given message", "go")
async def test_a_consumer_looked_into(broker: RemotingBroker, go: Driver, topic: str) -> None:
    sent = await go.call("send", topic=topic, body="again")
    await go.call("consume", topic=topic, group=topic)
    assert (await go.next(topic)).message_id == sent["message_id"]
    consumer = await broker.consumer_of(topic)
    info = await broker.control.running_info(consumer, group=topic)
    assert topic in json.dumps(info["subscriptionSet"])
    assert topic in json.dumps(info["mqTable"])

    done = await broker.control.consume(consumer, sent["message_id"], group=topic)
    again = await go.next(topic)
    assert (again.body, again.message_id, again.queue_offset) == ("again", sent["message_id"], 0)
    assert done["result"] == "CR_SUCCESS"


async def test_a_consumer_of_rust_looked_into(broker: RemotingBroker, rust: Driver, topic: str) -> None:
    """It also consumes a given message, but its answer has field names unknown to tools."""
    sent = await rust.call("send", topic=topic, body="again")
    await rust.call("consume", topic=topic, group=topic)
    await rust.next(topic)
    consumer = await broker.consumer_of(topic)
    info = await broker.control.running_info(consumer, group=topic)
    assert topic in {one["topic"] for one in info["subscriptionSet"]}
    with pytest.raises(BrokerError, match=r"the client's answer of .* cannot be read"):
        await broker.control.consume(consumer, sent["message_id"], group=topic)
    assert (await rust.next(topic)).message_id == sent["message_id"]
