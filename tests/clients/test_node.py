"""Features that only Aliyun's client for Node has."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.clients.conftest import Broker, OpenNode
from tests.clients.node_sdk import EndedError, NodeError, NodeSdk
from tests.clients.sdk import Account, Outgoing, RefusedError

pytestmark = pytest.mark.asyncio(loop_scope="session")

GROUP = "GID_billing"


@pytest_asyncio.fixture(loop_scope="session")
async def node(broker: Broker, open_node: OpenNode) -> AsyncIterator[NodeSdk]:
    async with open_node(Account(broker.url)) as sdk:
        yield sdk


@pytest.mark.point(
    "`Content-MD5` as the library computes it (base64 of hex) is accepted; the response is 201", "node"
)
async def test_content_md5(node: NodeSdk, topic: str) -> None:
    response = await node.call("publish", topic=topic, message={"body": "a", "properties": {}})
    assert response["code"] == 201
    assert response["requestId"]
    assert response["body"]["MessageBodyMD5"] == "0CC175B9C0F1B6A831C399E269772661"


@pytest.mark.point("Refusals are XML by their content type: errors have `Code` and `RequestId`", "node")
async def test_error(node: NodeSdk, topic: str) -> None:
    with pytest.raises(RefusedError) as refused:
        await node.call("consume", topic=topic, group=GROUP, limit=1)
    assert refused.value.code == "MessageNotExist"
    assert refused.value.request_id


@pytest.mark.point("Failed handles are a 404 response with a list, a success is 204", "node")
async def test_failed_handles(node: NodeSdk, topic: str) -> None:
    await node.publish(topic, Outgoing())
    [message] = await node.take(topic, GROUP)
    failed = await node.call("acknowledge", topic=topic, group=GROUP, handles=["garbled"])
    assert failed["code"] == 404
    assert failed["requestId"]
    [error] = failed["body"]
    assert error["ErrorCode"] == "ReceiptHandleError"
    done = await node.call("acknowledge", topic=topic, group=GROUP, handles=[message.handle])
    assert done["code"] == 204
    assert "body" not in done


@pytest.mark.point(
    "The library makes malformed XML of `]]>` in a body, which is refused: `MalformedXML`", "node"
)
async def test_end_of_cdata(node: NodeSdk, topic: str) -> None:
    with pytest.raises(RefusedError) as refused:
        await node.publish(topic, Outgoing(body="a ]]> b"))
    assert refused.value.code == "MalformedXML"


@pytest.mark.point("Properties without a trailing pipe are all read", "node")
async def test_last_property(broker: Broker, node: NodeSdk, topic: str) -> None:
    await node.publish(topic, Outgoing(properties={"first": "1", "last": "2"}))
    [message] = await broker.control.receive(topic, group=GROUP)
    assert (message["properties"]["first"], message["properties"]["last"]) == ("1", "2")


@pytest.mark.point("Properties that the library itself refuses never reach the broker", "node")
async def test_checks_of_the_library(node: NodeSdk, topic: str) -> None:
    with pytest.raises(NodeError, match="can not contains"):
        await node.publish(topic, Outgoing(properties={"a": "b:c"}))
    assert await node.take(topic, GROUP) == []


@pytest.mark.point("A consumer killed during a long poll leaves all messages visible", "node")
async def test_killed_in_a_poll(broker: Broker, open_node: OpenNode, node: NodeSdk, topic: str) -> None:
    async with open_node(Account(broker.url)) as victim:
        poll = asyncio.create_task(victim.take(topic, GROUP, wait_s=30))
        await broker.long_polls(1)
        await victim.kill()
        with pytest.raises(EndedError):
            await poll
    await broker.long_polls(0)
    await node.publish(topic, Outgoing(body="for the living"))
    assert await node.bodies(topic, GROUP) == ["for the living"]
