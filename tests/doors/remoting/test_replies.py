"""Requests and replies: 324, 325 and 326 (docs/protocol/remoting.md §2.7)."""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mocketmq.remoting.wire.command import Command
from tests.doors.remoting.consuming import HEART_BEAT, UNREGISTER, beat, consumer
from tests.doors.remoting.producing import (
    BORN_MS,
    UNIQUE,
    header,
    parted,
    pulled,
    refused,
    sent,
)
from tests.support.patience import PATIENCE_S
from tests.support.remoting import Remoting, RemotingClient, running_remoting

REPLY, REPLY_V2, PUSH = 324, 325, 326
REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
PROPERTIES = {
    "MSG_TYPE": "reply",
    "CORRELATION_ID": "c-1",
    "REPLY_TO_CLIENT": "asker",
    "TTL": "3000",
    "UNIQ_KEY": UNIQUE,
    "WAIT": "true",
}


async def be_asker(client: RemotingClient, name: str = "asker") -> None:
    """Register a client that can receive replies."""
    await client.ok(HEART_BEAT, body=beat(client=name, producers=("askers", "CLIENT_INNER_PRODUCER")))


def reply(
    client: RemotingClient,
    body: bytes = b"pong",
    properties: Mapping[str, str] = PROPERTIES,
    code: int = REPLY_V2,
    **fields: object,
) -> asyncio.Future[Command]:
    """Send a reply, and return a future of the answer."""
    return client.ask(code, header(code, properties, **{"topic": REPLY_TOPIC, **fields}), body)


async def answered(reply: asyncio.Future[Command]) -> Command:
    """Return the answer to the replier; fails if it takes too long."""
    async with asyncio.timeout(PATIENCE_S):
        return await reply


@pytest.mark.parametrize("code", [REPLY, REPLY_V2])
async def test_a_reply_reaches_the_requester_and_is_stored(code: int) -> None:
    async with running_remoting() as remoting, remoting.another() as asker:
        await be_asker(asker)
        replying = reply(remoting.client, code=code, flag=7, sys_flag=1)
        pushed = await asker.push()
        now_ms = str(remoting.broker.clock.now_us() // 1_000)
        assert (pushed.code, pushed.body, pushed.is_oneway) == (PUSH, b"pong", False)
        properties = parted(pushed.ext["properties"])
        assert properties == {**PROPERTIES, "PUSH_REPLY_TIME": now_ms}
        fields = dict(pushed.ext)
        del fields["properties"]
        assert int(fields.pop("bornTimestamp")) <= BORN_MS  # the emulated clock stands still
        assert fields == {
            "producerGroup": "makers",
            "topic": REPLY_TOPIC,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4",
            "queueId": "0",
            "sysFlag": "1",
            "flag": "7",
            "reconsumeTimes": "0",
            "unitMode": "false",
            "bornHost": remoting.client.address,
            "storeHost": remoting.server.broker_address,
            "storeTimestamp": now_ms,
        }
        assert not replying.done()
        asker.send(pushed.answer(0, {}, b"", None))
        told = await answered(replying)
        assert (told.code, told.remark, told.ext["queueId"], told.ext["queueOffset"]) == (0, None, "0", "0")
        [record] = await pulled(remoting.client, REPLY_TOPIC)
        assert (record.body, record.flag, record.sys_flag) == (b"pong", 7, 1)
        assert parted(record.properties) == PROPERTIES
        [viewed] = await remoting.broker.histories.records(told.ext["msgId"])
        assert viewed.unique_key == UNIQUE


async def test_the_topic_of_replies_has_a_route_before_any_reply() -> None:
    async with running_remoting(auto_create_topics=False) as remoting:
        [queues] = (await remoting.route(REPLY_TOPIC))["queueDatas"]
        assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (1, 1, 6)
        assert remoting.broker.registry.topics.get(REPLY_TOPIC).is_system


async def test_request_carries_its_reply_address() -> None:
    async with running_remoting() as remoting:
        await sent(
            remoting.client, properties={"CORRELATION_ID": "c-1", "REPLY_TO_CLIENT": "asker", "TTL": "9"}
        )
        [record] = await pulled(remoting.client)
        properties = parted(record.properties)
        assert properties["CLUSTER"] + "_REPLY_TOPIC" == REPLY_TOPIC
        assert (properties["CORRELATION_ID"], properties["REPLY_TO_CLIENT"]) == ("c-1", "asker")


@pytest.mark.parametrize(
    ("properties", "remark"),
    [
        ({}, "reply message properties[REPLY_TO_CLIENT] is null"),
        ({"REPLY_TO_CLIENT": "nobody"}, "push reply message fail, channel of <nobody> not found."),
        ({"REPLY_TO_CLIENT": "consumer"}, "push reply message fail, channel of <consumer> not found."),
    ],
)
async def test_reply_to_an_absent_requester_is_reported(properties: dict[str, str], remark: str) -> None:
    async with running_remoting() as remoting, remoting.another() as other:
        await other.ok(HEART_BEAT, body=beat(consumer(), client="consumer"))
        told = await refused(remoting.client, code=REPLY_V2, properties=properties, topic=REPLY_TOPIC)
        assert told == (1, remark)
        assert [record.body for record in await pulled(remoting.client, REPLY_TOPIC)] == [b"hello"]


async def test_the_requester_refuses_or_disconnects() -> None:
    async with running_remoting() as remoting, remoting.another() as asker:
        await be_asker(asker)
        replying = reply(remoting.client)
        asker.send((await asker.push()).answer(1, {}, b"", "process reply message fail"))
        told = await answered(replying)
        assert (told.code, told.remark) == (1, "push reply message to askerfail.")
        replying = reply(remoting.client)
        await asker.push()
        await asker.close()
        told = await answered(replying)
        assert (told.code, told.remark) == (1, "push reply message to askerfail.")
        await until_told(remoting, None)
        told = await answered(reply(remoting.client))
        assert (told.code, told.remark) == (1, "push reply message fail, channel of <asker> not found.")


async def test_a_requester_that_no_longer_produces_gets_no_reply() -> None:
    async with running_remoting() as remoting, remoting.another() as asker:
        await be_asker(asker)
        for group in ("askers", "CLIENT_INNER_PRODUCER"):
            await asker.ok(UNREGISTER, {"clientID": "asker", "producerGroup": group})
        assert (await answered(reply(remoting.client))).code == 1
        assert asker.pushes.empty()


async def test_a_reply_goes_to_the_requesters_newest_connection() -> None:
    async with running_remoting() as remoting, remoting.another() as old:
        await be_asker(old)
        async with remoting.another() as new:
            await be_asker(new)
            replying = reply(remoting.client)
            new.send((await new.push()).answer(0, {}, b"", None))
            assert (await answered(replying)).code == 0
        await until_told(remoting, old)
        replying = reply(remoting.client)
        old.send((await old.push()).answer(0, {}, b"", None))
        assert (await answered(replying)).code == 0


async def until_told(remoting: Remoting, client: RemotingClient | None) -> None:
    """Wait until replies are sent to this connection, or to none."""
    wanted = None if client is None else client.address
    async with asyncio.timeout(PATIENCE_S):
        while (
            member := remoting.broker.registry.clients.producer("asker")
        ) and member.channel.remote != wanted:
            await remoting.route(REPLY_TOPIC)
    assert (member is None) is (client is None)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"topic": "bad/name"}, 29),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, 16),
        ({"topic": "unheard-of", "default_topic": "nor-this"}, 17),
        ({"queue_id": 1}, 29),
        ({"reconsume_times": -1}, 1),
        ({"born_timestamp": -1}, 1),
        ({"properties": PROPERTIES | {"_SYS_MSG_PRIORITY_": "9"}}, 13),
        ({"properties": PROPERTIES | {"__LITE_TOPIC": "chat-1"}}, 13),
    ],
)
async def test_an_invalid_reply_is_not_delivered(fields: dict[str, Any], code: int) -> None:
    async with running_remoting() as remoting, remoting.another() as asker:
        await be_asker(asker)
        given = {"topic": REPLY_TOPIC, "properties": PROPERTIES, **fields}
        told = await refused(remoting.client, code=REPLY_V2, **given)
        assert told[0] == code
        assert asker.pushes.empty()


async def test_unstored_reply_is_delivered() -> None:
    async with running_remoting(max_message_bytes=1024) as remoting, remoting.another() as asker:
        await be_asker(asker)
        replying = reply(remoting.client, b"x" * 2_000, queue_id=-1)
        pushed = await asker.push()
        assert pushed.ext["queueId"] == "-1"
        asker.send(pushed.answer(0, {}, b"", None))
        told = await answered(replying)
        assert (told.code, told.ext["msgId"], told.ext["queueId"], told.ext["queueOffset"]) == (
            0,
            "0",
            "0",
            "0",
        )
        assert await pulled(remoting.client, REPLY_TOPIC) == []


async def test_oneway_reply_is_delivered() -> None:
    async with running_remoting() as remoting, remoting.another() as asker:
        await be_asker(asker)
        remoting.client.oneway(REPLY_V2, header(REPLY_V2, PROPERTIES, topic=REPLY_TOPIC), b"pong")
        assert (await asker.push()).body == b"pong"


async def test_a_client_replies_to_itself() -> None:
    async with running_remoting() as remoting:
        await be_asker(remoting.client)
        replying = reply(remoting.client)
        remoting.client.send((await remoting.client.push()).answer(0, {}, b"", None))
        assert (await answered(replying)).code == 0


async def test_hundred_concurrent_requesters_get_their_replies() -> None:
    async with running_remoting() as remoting, contextlib.AsyncExitStack() as stack:
        askers = [await stack.enter_async_context(remoting.another()) for _ in range(100)]
        await asyncio.gather(*(be_asker(asker, f"asker-{n}") for n, asker in enumerate(askers)))
        replies = [
            reply(remoting.client, b"%d" % n, {**PROPERTIES, "REPLY_TO_CLIENT": f"asker-{n % 100}"})
            for n in range(500)
        ]

        async def serve(asker: RemotingClient) -> list[bytes]:
            found = []
            for _ in range(5):
                pushed = await asker.push()
                found.append(pushed.body)
                asker.send(pushed.answer(0, {}, b"", None))
            return found

        found = await asyncio.gather(*map(serve, askers))
        assert found == [[b"%d" % n for n in range(own, 500, 100)] for own in range(100)]
        assert {told.code for told in await asyncio.gather(*map(answered, replies))} == {0}


async def test_a_reply_is_kept_when_its_sender_dies() -> None:
    async with running_remoting() as remoting, remoting.another() as asker, remoting.another() as replier:
        await be_asker(asker)
        replying = reply(replier)
        pushed = await asker.push()
        await replier.close()
        asker.send(pushed.answer(0, {}, b"", None))
        await asyncio.wait([replying])
        async with asyncio.timeout(PATIENCE_S):
            while not await pulled(remoting.client, REPLY_TOPIC):
                pass


async def test_replies_survive_a_restart(tmp_path: Path) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        assert (await answered(reply(remoting.client))).code == 1
    async with running_remoting(data=str(tmp_path)) as remoting:
        assert [record.body for record in await pulled(remoting.client, REPLY_TOPIC)] == [b"pong"]
