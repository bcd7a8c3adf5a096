"""Features that only Aliyun's HTTP client for Java has."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict

import pytest
import pytest_asyncio

from tests.clients.conftest import Broker, OpenJava
from tests.clients.java_sdk import JavaSdk
from tests.clients.remoting.driver import ClientError
from tests.clients.sdk import Account, Outgoing

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

GROUP = "GID_billing"


@pytest_asyncio.fixture(loop_scope="session")
async def java(broker: Broker, open_java: OpenJava) -> AsyncIterator[JavaSdk]:
    async with open_java(Account(broker.url)) as sdk:
        yield sdk


@pytest.mark.point("A poll that finds nothing returns null", "java")
async def test_null(java: JavaSdk, topic: str) -> None:
    assert await java.call("consume", topic=topic, group=GROUP, limit=1) is None


@pytest.mark.point("Exceptions have code, message, request id and host id", "java")
async def test_service_exception(broker: Broker, java: JavaSdk, topic: str) -> None:
    answer = await java.answer("consume", topic=topic, group=GROUP, limit=17)
    assert answer["refused"] == "InvalidArgument"
    assert "numOfMessages" in answer["message"]
    assert answer["request_id"].isalnum()
    assert answer["host_id"] == broker.url


@pytest.mark.point("Publishing, consuming and acknowledging with callbacks", "java")
async def test_callbacks(broker: Broker, java: JavaSdk, topic: str) -> None:
    outgoing = asdict(Outgoing(body="called back"))
    done = await java.call("with_callbacks", topic=topic, group=GROUP, message=outgoing)
    [message] = done["consumed"]
    assert (message["message_id"], message["body"]) == (done["published"]["message_id"], "called back")
    await broker.control.advance("301s")
    assert await java.take(topic, GROUP) == []


@pytest.mark.point("A client is shared by twenty threads", "java")
async def test_threads(java: JavaSdk, topic: str) -> None:
    """The driver has a thread for each call that runs."""
    bodies = [str(number) for number in range(20)]
    await asyncio.gather(*(java.publish(topic, Outgoing(body=body)) for body in bodies))
    taken = await asyncio.gather(*(java.take(topic, GROUP, limit=1, wait_s=30) for _ in bodies))
    messages = [message for share in taken for message in share]
    assert sorted(message.body for message in messages) == sorted(bodies)
    await asyncio.gather(*(java.acknowledge(topic, GROUP, [message.handle]) for message in messages))


@pytest.mark.point("CRLF and `]]>` in a body", "java")
async def test_markup(java: JavaSdk, topic: str) -> None:
    body = "one\r\ntwo ]]> \r"
    await java.publish(topic, Outgoing(body=body))
    assert await java.bodies(topic, GROUP) == [body]


@pytest.mark.point(
    "What the library itself refuses never reaches the broker: no messages, no handles", "java"
)
async def test_checks_of_the_library(java: JavaSdk, topic: str) -> None:
    await java.publish(topic, Outgoing(body="still here"))
    for limit in (-1, 0):
        with pytest.raises(ClientError, match="Consume num should greater"):
            await java.consume(topic, GROUP, limit=limit)
    with pytest.raises(ClientError, match="ReceiptHandles can not be null or empty"):
        await java.acknowledge(topic, GROUP, [])
    assert await java.bodies(topic, GROUP) == ["still here"]
