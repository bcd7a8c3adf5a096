"""Lite topics over the JSON API: sending to them, listing them, and their messages."""

import re

import pytest

from mocketmq import BrokerError, Client
from mocketmq.broker.lite.subscriptions import LiteStart
from tests.support.api import running_api
from tests.support.command_line import Shell


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
        topic = await client.topic("chats")
        assert (topic["lite_topics"], topic["lite_messages"]) == (2, 3)
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


async def test_lists_leaks_and_commands_name_the_lite_topic() -> None:
    async with running_api(clock="manual") as api, Client(api.emulator.url) as client:
        await client.put_topic("chats", type="lite")
        await client.put_group("agents", lite_parent="chats")
        for body in ("1", "2"):
            await client.send("chats", body, lite_topic="x", tag="new")
        await client.send("chats", "1", lite_topic="y")
        agents = await api.emulator.broker.lite_subscriptions.admit("agents", "chats")
        for queue in api.emulator.broker.registry.topics.lites.of("chats"):
            agents.in_queue(queue)

        leaks = [(one["message"]["lite_topic"], one["text"]) for one in await client.leaks("agents")]
        assert leaks == [
            ("x", "chats lite topic x tag new '1': not taken at agents"),
            ("x", "chats lite topic x tag new '2': not taken at agents"),
            ("y", "chats lite topic y '1': not taken at agents"),
        ]
        for path, field in (("message-states", "messages"), ("records", "records")):
            [newest, *_] = (await api.ok("GET", f"/v1/{path}"))[field]
            assert newest["lite_topic"] == "y"
        shell = Shell(api.emulator.url)
        assert re.search(r"^agents +chats +x +0 +2 +2 ", (await shell("groups")).stdout, re.MULTILINE)
        assert re.search(r"^chats +rw +lite +4 +4 +3 *$", (await shell("topics")).stdout, re.MULTILINE)


async def test_a_lite_topic_is_read_without_consuming_it() -> None:
    async with running_api(clock="manual") as api, Client(api.emulator.url) as client:
        await client.put_topic("chats", type="lite")
        for name, body in (("x", "1"), ("y", "1"), ("x", "2"), ("x", "3")):
            await client.send("chats", body, lite_topic=name, tag=f"t{body}")
        page = await client.browse("chats", lite_topic="x", offset=1, max_messages=1)
        assert [(one["body"], one["lite_topic"]) for one in page["messages"]] == [("2", "x")]
        assert (page["min_offset"], page["next_offset"], page["max_offset"]) == (0, 2, 3)
        shell = Shell(api.emulator.url)
        for options, expected in (
            ((), ["1", "2", "3"]),
            (("--offset", "-1"), ["3"]),
            (("--filter", "t2"), ["2"]),
        ):
            shown = await shell.json("peek", "chats", "--lite-topic", "x", *options)
            assert [one["body"] for one in shown["messages"]] == expected
        table = (await shell("peek", "chats", "--lite-topic", "y")).stdout
        assert re.search(r" chats +y +0 .* 1$", table, re.MULTILINE)
        sent = (await shell("send", "chats", "4", "--lite-topic", "z")).stdout
        assert sent.endswith(" → chats lite topic z, offset 0\n")
        refused = await shell("peek", "chats", "--lite-topic", "x", "--queue", "0")
        assert (refused.code, "--queue and --lite-topic cannot be combined" in refused.stderr) == (2, True)
        nothing = await shell("peek", "chats")
        assert nothing.stdout == (
            "no messages to show in chats; choose one of its lite topics by --lite-topic\n"
        )
        with pytest.raises(BrokerError, match="topic chats has no lite topic w"):
            await client.browse("chats", lite_topic="w")
        with pytest.raises(BrokerError, match="hyphens"):
            await client.browse("chats", lite_topic="a b")
