"""Lite topics after a kill: acknowledged messages are there, and those not settled come again in order."""

from pathlib import Path
from typing import Any

from mocketmq import Client
from tests.support.grpc import grpc_client
from tests.support.process import forked_broker

TOPIC, GROUP = {"name": "chats"}, {"name": "agents"}


async def received(port: int) -> list[Any]:
    """Subscribe to all lite topics that the group had, and receive once."""
    async with grpc_client(port, "a@1@0@x") as client, client.telemetry() as telemetry:
        await telemetry.settings(client_type=5, subscription={"group": GROUP})
        await client.call(
            "SyncLiteSubscription", action=2, topic=TOPIC, group=GROUP, lite_topic_set=["x", "y"]
        )
        got = await client.receive("agents", "chats")
        answer = await client.ack(got[0], group="agents", topic="chats")
        assert answer.status.code == 20_000
        return got


async def test_lite_topics_survive_a_kill(tmp_path: Path) -> None:
    options = ("--data", str(tmp_path), "--clock", "manual")
    async with forked_broker(*options) as broker, Client(broker.url) as control:
        await control.put_topic("chats", type="lite")
        await control.put_group("agents", lite_parent="chats")
        for body, name in (("1", "x"), ("2", "x"), ("1", "y"), ("3", "x")):
            await control.send("chats", body, lite_topic=name)
        first = await received(int(broker.grpc.rpartition(":")[2]))
        assert [one.body for one in first] == [b"1", b"2", b"3", b"1"]
        broker.kill()
        await broker.wait()
    async with forked_broker(*options) as broker, Client(broker.url) as control:
        lites = [(one["name"], one["max_offset"]) for one in await control.lite_topics("chats")]
        assert lites == [("x", 3), ("y", 1)]
        await control.advance("1m")
        again = await received(int(broker.grpc.rpartition(":")[2]))
        assert [(one.body, one.system_properties.lite_topic) for one in again] == [
            (b"2", "x"),
            (b"3", "x"),
            (b"1", "y"),
        ]
