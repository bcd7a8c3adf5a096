"""Lite topics over the JSON API: sending to them, listing them, and their messages."""

import pytest

from mocketmq import BrokerError, Client
from mocketmq.broker.lite.subscriptions import LiteStart
from tests.support.api import running_api


async def test_lite_topics_are_listed_with_offsets_expiry_and_subscribers() -> None:
    async with running_api(clock="manual") as api, Client(api.emulator.url) as client:
        made = await client.put_topic("chats", type="lite", lite_expiration=20)
        assert (made["type"], made["lite_topics"]) == ("lite", 0)
        group = await client.put_group(
            "agents", lite_parent="chats", lite_exclusive=True, lite_wildcard=False, lite_quota=5
        )
        assert group["lite_parent"] == "chats"
        config = api.emulator.broker.registry.groups.get("agents").config
        assert (config.is_lite_exclusive, config.is_lite_wildcard, config.lite_quota) == (True, False, 5)
        await client.send("chats", "1", lite_topic="x")
        sent = await client.send("chats", "2", lite_topic="x")
        await client.send("chats", "1", lite_topic="y")
        subscriptions = api.emulator.broker.lite_subscriptions
        agents = await subscriptions.admit("agents", "chats")
        await subscriptions.add("a@1", agents, ["x"], LiteStart(), lambda _name: None)
        x, y = await client.lite_topics("chats")
        assert (x["name"], x["min_offset"], x["max_offset"], x["clients"]) == ("x", 0, 2, ["a@1"])
        assert (y["name"], y["groups"], y["clients"]) == ("y", ["agents"], [])
        assert x["expires_ms"] - x["last_ms"] == 20 * 60_000
        assert (await client.topic("chats"))["lite_topics"] == 2
        message = await client.message(sent["message_id"])
        assert message["records"][0]["lite_topic"] == "x"
        await client.advance("20m")
        assert await client.lite_topics("chats") == []


@pytest.mark.parametrize(
    ("topic", "options", "field"),
    [
        ("chats", {"lite_topic": "a b"}, "lite_topic"),
        ("chats", {"lite_topic": "a", "queue_id": 0}, "queue_id"),
        ("chats", {"lite_topic": "a", "priority": 1}, "priority"),
        ("chats", {"lite_topic": "a", "delay_level": 1}, "lite_topic"),
        ("chats", {"lite_topic": "a", "delay": "1s"}, "lite_topic"),
        ("orders", {"lite_topic": "a"}, "lite_topic"),
    ],
)
async def test_messages_that_are_not_for_a_lite_topic_are_refused(
    topic: str, options: dict[str, object], field: str
) -> None:
    async with running_api() as api, Client(api.emulator.url) as client:
        await client.put_topic("chats", type="lite")
        with pytest.raises(BrokerError) as refused:
            await client.send(topic, "m", **options)  # type: ignore[arg-type]
        assert refused.value.field == field
        assert api.emulator.broker.registry.topics.lites.count == 0
