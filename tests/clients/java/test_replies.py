"""Requests and replies of Java clients."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import pytest
import pytest_asyncio

from tests.clients.java.building import java_command
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import WAIT_S, ClientError, Driver, EndedError, running_driver

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
LONG_MS = 200_000
"""A client's limit for a reply, which a busy machine keeps."""


@asynccontextmanager
async def joined(client: str, broker: RemotingBroker, home: Path) -> AsyncIterator[Driver]:
    """Start a client, and wait until the broker knows it from a heartbeat (every 30 s)."""
    group = f"GID_{uuid4().hex}"
    command = (*java_command(client, home), "rocketmq.ReplyDriver")
    async with running_driver(command, home, name_server=broker.name_server, group=group) as driver:
        await driver.call("send", topic=group, body="here I am")
        async with asyncio.timeout(WAIT_S):
            while not any(group in one["producer_groups"] for one in await broker.control.clients()):
                pass
        yield driver


@pytest_asyncio.fixture(loop_scope="session")
async def asker(client: str, broker: RemotingBroker, built: None, home: Path) -> AsyncIterator[Driver]:  # noqa: ARG001
    """A requesting client."""
    async with joined(client, broker, home) as driver:
        yield driver


@pytest_asyncio.fixture(loop_scope="session")
async def replier(client: str, broker: RemotingBroker, built: None, home: Path) -> AsyncIterator[Driver]:  # noqa: ARG001
    """A replying client in another process."""
    async with joined(client, broker, home) as driver:
        yield driver


@pytest.mark.feature("Request and reply", "java-4.9", "java-5.5")
async def test_a_reply(broker: RemotingBroker, asker: Driver, replier: Driver, topic: str) -> None:
    await broker.control.put_topic(topic)
    await replier.call("reply", topic=topic, times=2)
    reply = await asker.call("request_async", topic=topic, body="what? ", timeout_ms=LONG_MS)
    assert (reply["topic"], reply["body"]) == (REPLY_TOPIC, "what? what? ")
    properties = reply["properties"]
    assert (properties["MSG_TYPE"], properties["TTL"]) == ("reply", str(LONG_MS))
    assert int(properties["PUSH_REPLY_TIME"]) <= await now_ms(broker)
    assert {"CORRELATION_ID", "REPLY_TO_CLIENT", "ARRIVE_TIME"} <= properties.keys()
    assert await replier.call("replied", body="what? ") == "SEND_OK"
    [stored] = (await broker.control.message(properties["UNIQ_KEY"]))["records"]
    assert (stored["topic"], stored["body"]) == (REPLY_TOPIC, "what? what? ")


@pytest.mark.feature("Request and reply", "java-4.9", "java-5.5")
async def test_ask_and_wait(broker: RemotingBroker, asker: Driver, replier: Driver, topic: str) -> None:
    await broker.control.put_topic(topic)
    await replier.call("reply", topic=topic, times=1)
    assert (await asker.call("request", topic=topic, body="hello", timeout_ms=LONG_MS))["body"] == "hello"
    with pytest.raises(ClientError, match="wait reply message timeout"):
        await asker.call("request", topic=topic, body="silence", timeout_ms=3_000)


async def now_ms(broker: RemotingBroker) -> int:
    """Return the broker's time in milliseconds."""
    now: int = (await broker.control.clock())["now_ms"]
    return now


@pytest.mark.feature("Request and reply", "java-4.9", "java-5.5")
async def test_a_large_reply_is_decompressed(
    broker: RemotingBroker, asker: Driver, replier: Driver, topic: str
) -> None:
    await broker.control.put_topic(topic)
    await replier.call("reply", topic=topic, times=10_000)
    reply = await asker.call("request_async", topic=topic, body="la ", timeout_ms=LONG_MS)
    assert reply["body"] == "la " * 10_000


@pytest.mark.feature("Request and reply", "java-4.9", "java-5.5")
async def test_many_at_once(broker: RemotingBroker, asker: Driver, replier: Driver, topic: str) -> None:
    await broker.control.put_topic(topic)
    await replier.call("reply", topic=topic, times=1)
    bodies = [f"question {n}" for n in range(200)]
    replies = await asyncio.gather(
        *(asker.call("request_async", topic=topic, body=body, timeout_ms=LONG_MS) for body in bodies)
    )
    assert [reply["body"] for reply in replies] == bodies


@pytest.mark.feature("Request and reply", "java-4.9", "java-5.5")
async def test_the_requester_has_disconnected(
    broker: RemotingBroker, asker: Driver, replier: Driver, topic: str
) -> None:
    await broker.control.put_topic(topic)
    asking = asyncio.create_task(
        asker.call("request_async", topic=topic, body="anybody?", timeout_ms=LONG_MS)
    )
    assert (await broker.control.wait_delivered(topic, 1, wait="30s"))["reached"]
    await asker.kill()
    with pytest.raises(EndedError):
        await asking
    await replier.call("reply", topic=topic, times=1)
    told = await replier.call("replied", body="anybody?")
    assert "push reply message fail, channel of <" in told
