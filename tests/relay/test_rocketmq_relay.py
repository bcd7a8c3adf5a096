"""The relay in front of mocketmq, over RocketMQ's protocol, keeps, forwards and refuses messages."""

import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC

from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.message.properties import KEYS, START_DELIVER_TIME, TAGS
from mocketmq.relay.judging import RELAY_DELAY_MS, RELAY_ID, RELAY_REFUSED, RELAY_TOPIC
from tests.support.relays import (
    LATER,
    LOCK_S,
    LONG_US,
    ORDERS,
    User,
    ids_of,
    properties_of,
    running_relay,
    user_of,
)
from tests.support.remoting import running_remoting

LOCKS = ("--lock-time", f"{LOCK_S}s")


@asynccontextmanager
async def broker() -> AsyncIterator[tuple[str, User]]:
    """The name server's address, and a user."""
    async with running_remoting(clock="real", auto_create_topics=False) as remoting:
        remoting.broker.queue_locks.lifetime_us = LONG_US
        host, port = remoting.emulator.settings.host, remoting.server.broker_port
        async with user_of(host, port) as user:
            yield f"{host}:{remoting.server.namesrv_port}", user


async def test_due_messages_reach_their_real_topic() -> None:
    async with broker() as (name_server, user), running_relay(name_server) as relay:
        bodies = [b"%d" % number for number in range(40)]
        await user.delay(bodies, 1_200)
        due_ms = wall_us() // US_PER_MS + 1_500
        words = {RELAY_TOPIC: ORDERS, TAGS: "paid", KEYS: "k1 k2", "shop": "Köln"}
        born_ms = await user.send(b"like this", words | {START_DELIVER_TIME: str(due_ms)})
        records = await user.received([*bodies, b"like this"])
    assert (relay.figures().kept, relay.figures().forwarded, relay.figures().refused) == (41, 41, 0)
    assert len(records) == 41
    assert all(len(ids) == 1 for ids in ids_of(records).values())
    assert all(record.store_ms >= record.born_ms + 1_200 for record in records if record.body in bodies)
    [like_this] = [record for record in records if record.body == b"like this"]
    assert like_this.store_ms >= due_ms
    assert like_this.born_ms == born_ms
    properties = properties_of(like_this)
    assert {name: properties.get(name) for name in words} == words | {RELAY_TOPIC: None}
    assert properties[START_DELIVER_TIME] == str(due_ms)
    assert properties[RELAY_ID].startswith("broker-a/")


REFUSED = {
    "RELAY_TOPIC is missing": {"RELAY_DELAY_MS": "1"},
    "the due time is missing": {"RELAY_TOPIC": ORDERS},
    "RELAY_DELAY_MS is 'soon'; allowed: milliseconds": {"RELAY_TOPIC": ORDERS, "RELAY_DELAY_MS": "soon"},
    "allowed: at most 400d ahead": {"RELAY_TOPIC": ORDERS, "RELAY_DELAY_MS": str(401 * 86_400_000)},
    "the real topic nowhere does not exist": {"RELAY_TOPIC": "nowhere", "RELAY_DELAY_MS": "1"},
    "to which clients cannot send": {"RELAY_TOPIC": "SCHEDULE_TOPIC_XXXX", "RELAY_DELAY_MS": "1"},
    "one of the relay's own": {"RELAY_TOPIC": "later-pending", "RELAY_DELAY_MS": "1"},
    "with the relay's properties": {"RELAY_TOPIC": ORDERS, "RELAY_DELAY_MS": "1", "long": '"' * 20_000},
}


async def test_refused_messages_go_to_the_refused_topic_and_block_no_others() -> None:
    async with broker() as (name_server, user), running_relay(name_server) as relay:
        for sentence, words in REFUSED.items():
            await user.send(sentence.encode(), words)
        await user.delay([b"good"], 1)
        await user.received([b"good"])
        records = await user.received([sentence.encode() for sentence in REFUSED], f"{LATER}-refused")
    assert relay.figures().refused == len(REFUSED)
    assert len(user.read[ORDERS]) == 1
    assert len(records) == len(REFUSED)
    for record in records:
        properties = properties_of(record)
        assert record.body.decode() in properties[RELAY_REFUSED]
        assert properties[RELAY_ID].startswith("broker-a/")


async def test_pending_messages_survive_a_restart_of_the_relay() -> None:
    bodies = [b"%d" % number for number in range(60)]
    async with broker() as (name_server, user):
        async with running_relay(name_server) as first:
            await user.delay(bodies, 2_000)
            await user.delay([b"soon"], 1)
            await user.received([b"soon"])
        async with running_relay(name_server) as second:
            records = await user.received(bodies)
    assert first.figures().forwarded + second.figures().forwarded == len(records) == 61
    assert all(len(ids) == 1 for ids in ids_of(records).values())


async def test_relays_share_queues_and_release_them_when_leaving() -> None:
    bodies = [b"%d" % number for number in range(80)]
    async with broker() as (name_server, user), running_relay(name_server):
        async with running_relay(name_server) as second:
            await user.delay(bodies[:40], 500)
            await user.received(bodies[:40])
        await user.delay(bodies[40:], 1)
        records = await user.received(bodies)
    assert second.figures().forwarded > 0
    assert all(len(ids) == 1 for ids in ids_of(records).values())


async def test_messages_with_the_same_sharding_key_stay_in_order() -> None:
    bodies = [b"%d" % number for number in range(30)]
    words = {RELAY_TOPIC: ORDERS, RELAY_DELAY_MS: "300", "__SHARDINGKEY": "order 7"}
    async with broker() as (name_server, user), running_relay(name_server):
        for body in bodies:
            await user.send(body, words, queue_id=1)
        records = await user.received(bodies)
    assert len({record.queue_id for record in records}) == 1
    assert [record.body for record in records] == bodies


async def test_json_bodies_may_be_compressed() -> None:
    told = b'{"actualTopic": "orders", "actualTime": "2026-01-31 08:00:00", "n": %d}'
    packed = zlib.compress(told % 2)
    async with broker() as (name_server, user), running_relay(name_server, zone=UTC):
        await user.send(told % 1, {})
        await user.send(packed, {"a": "b"}, sys_flag=1)
        records = await user.received([told % 1, packed])
    [second] = [record for record in records if record.body == packed]
    assert second.sys_flag & 1
    assert properties_of(second)["a"] == "b"
