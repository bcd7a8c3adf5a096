"""Administrators' requests about lite topics, as mqadmin of 5.5.0 sends them."""

import json
from typing import Any

from msgspec.structs import replace

from mocketmq.broker.lite.subscriptions import LiteStart
from mocketmq.broker.registry.groups import LITE_BIND_TOPIC, USUAL
from mocketmq.broker.registry.topic_config import PLAIN
from mocketmq.message.message import Message
from tests.support.remoting import Remoting


async def fill(remoting: Remoting) -> None:
    """Send three messages to lite topics of ``chats``, and subscribe a client to one of them."""
    registry, broker = remoting.broker.registry, remoting.broker
    await registry.topics.put("chats", 4, 4, 6, replace(PLAIN, attributes={"message.type": "LITE"}))
    await registry.groups.put("agents", 16, 1, replace(USUAL, attributes={LITE_BIND_TOPIC: "chats"}))
    for name in ("x", "x", "y"):
        await broker.sender.send(Message("chats", b"m", {"__LITE_TOPIC": name}))
    group = await broker.lite_subscriptions.admit("agents", "chats")
    await broker.lite_subscriptions.add("a@1", group, ["x"], LiteStart(), lambda _name: None)


async def asked(remoting: Remoting, code: int, **fields: Any) -> Any:
    answer = await remoting.client.call(code, {name: str(value) for name, value in fields.items()})
    return (answer.code, json.loads(answer.body) if answer.body else answer.remark)


async def test_lite_topics_are_shown_to_administrators(remoting: Remoting) -> None:
    await fill(remoting)
    code, broker = await asked(remoting, 200_074)
    assert (code, broker["currentLmqNum"], broker["liteSubscriptionCount"]) == (0, 2, 1)
    assert (broker["topicMeta"], broker["groupMeta"]) == ({"chats": -1}, {"chats": ["agents"]})
    _, parent = await asked(remoting, 200_075, topic="chats")
    assert (parent["ttl"], parent["liteTopicCount"], parent["groups"]) == (-1, 2, ["agents"])
    _, lite = await asked(remoting, 200_076, parentTopic="chats", liteTopic="x")
    assert lite["subscriber"] == [{"clientId": "a@1", "group": "agents"}]
    assert (lite["topicOffset"]["minOffset"], lite["topicOffset"]["maxOffset"]) == (0, 2)
    _, client = await asked(
        remoting, 200_077, parentTopic="chats", group="agents", clientId="a@1", maxCount=5
    )
    assert (client["liteTopicCount"], client["liteTopicSet"]) == (1, ["%LMQ%$chats$x"])
    _, group = await asked(remoting, 200_078, group="agents", topK=1)
    assert group["totalLagCount"] == 3
    assert [(one["liteTopic"], one["lagCount"]) for one in group["lagCountTopK"]] == [("x", 2)]
    _, group = await asked(remoting, 200_078, group="agents", liteTopic="y")
    assert (group["totalLagCount"], group["liteTopicOffsetWrapper"]["brokerOffset"]) == (1, 1)
    assert await asked(remoting, 200_079, group="agents") == (0, None)


async def test_requests_about_other_topics_and_groups_are_refused(remoting: Remoting) -> None:
    await fill(remoting)
    await remoting.broker.registry.topics.ensure("orders", 1)
    await remoting.broker.registry.groups.put("billing", 16, 1)
    assert await asked(remoting, 200_075, topic="orders") == (29, "Topic [orders] type not match.")
    assert await asked(remoting, 200_075, topic="none") == (17, "Topic [none] not exist.")
    assert await asked(remoting, 200_078, group="none") == (26, "Group [none] not exist.")
    assert await asked(remoting, 200_078, group="billing") == (29, "Group [billing] is not a LITE group.")
