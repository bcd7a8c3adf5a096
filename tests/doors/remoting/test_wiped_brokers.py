"""A broker that is wiped while it is down comes back empty; the others keep what they have."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mocketmq.errors import BrokerStateError
from mocketmq.faults.rule import FaultRule
from tests.doors.remoting.broker_pairs import (
    COMMIT,
    MAX_OFFSET,
    QUERY,
    B,
    Pair,
    bodies,
    pulled,
    running_pair,
    send,
)
from tests.support.brokers import GROUP, TOPIC
from tests.support.remoting import RemotingClient


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with running_pair() as pair:
        yield pair


async def max_offset(client: RemotingClient) -> int:
    answer = await client.ok(MAX_OFFSET, {"topic": TOPIC, "queueId": "0"})
    return int(answer.ext["offset"])


def place() -> dict[str, str]:
    return {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}


async def test_messages_and_offsets_of_the_broker_are_gone(pair: Pair) -> None:
    for client in (pair.a, pair.b):
        for number in range(3):
            await send(client, str(number))
        await pulled(client)
        await client.ok(COMMIT, {**place(), "commitOffset": "2"})
    await pair.broker.broker_lives.crash(B)
    await pair.broker.broker_lives.wipe(B)
    async with pair.back() as b:
        assert (await bodies(pair.a), await bodies(b)) == (["0", "1", "2"], [])
        assert (await max_offset(pair.a), await max_offset(b)) == (3, 0)
        assert (await pair.a.ok(QUERY, place())).ext["offset"] == "2"
        assert (await b.call(QUERY, place())).ext.get("offset", "0") == "0"
        sent = await send(b, "new")
        assert sent["queueOffset"] == "0"
        assert await bodies(b) == ["new"]


async def test_what_was_taken_before_the_wipe_is_no_event_of_later_messages(pair: Pair) -> None:
    for client in (pair.a, pair.b):
        await send(client, "old")
        await pulled(client)
        await client.ok(COMMIT, {**place(), "commitOffset": "1"})
    await pair.broker.broker_lives.crash(B)
    await pair.broker.broker_lives.wipe(B)
    async with pair.back() as b:
        await send(b, "new")
        events, _ = await pair.broker.events.newest(10)
    assert sorted(event.text for event in events) == [
        f"acknowledged by {GROUP}: 'old'",
        "broker-b crashed",
        "broker-b started",
        "broker-b wiped",
        f"sent to {TOPIC} by remoting: 'new'",
        f"sent to {TOPIC} by remoting: 'old'",
        f"taken by {GROUP}: 'old'",
    ]


async def test_delayed_messages_of_the_broker_are_gone(pair: Pair) -> None:
    wall_ms = (pair.broker.clock.now_us() - pair.broker.clock.from_wall(0)) // 1_000
    for client in (pair.a, pair.b):
        await send(client, "by level", DELAY="1")
        await send(client, "by time", __STARTDELIVERTIME=str(wall_ms + 60_000))
    await send(pair.b, "held", DELAY="1")
    await pair.broker.broker_lives.crash(B)
    await pair.advance(5)
    await pair.broker.broker_lives.wipe(B)
    assert await pair.broker.held.counts() == {}
    async with pair.back() as b:
        await pair.advance(600)
        assert (await bodies(pair.a), await bodies(b)) == (["by level", "by time"], [])


async def test_repeats_of_the_messages_of_the_broker_are_gone(pair: Pair) -> None:
    await pair.broker.faults.add_rule(FaultRule(do="deliver-again", by="10s"))
    for client in (pair.a, pair.b):
        await send(client, "late", DELAY="1")
    await pair.advance(1)
    await pair.broker.broker_lives.crash(B)
    await pair.broker.broker_lives.wipe(B)
    async with pair.back() as b:
        await pair.advance(10)
        assert (await bodies(pair.a), await bodies(b)) == (["late", "late"], [])


async def test_a_wiped_broker_stays_wiped_after_a_restart(tmp_path: Path) -> None:
    async with running_pair(data=str(tmp_path)) as pair:
        for client in (pair.a, pair.b):
            await send(client, "before")
            await send(client, "later", DELAY="2")
        await pair.broker.broker_lives.shut_down(B)
        await pair.broker.broker_lives.wipe(B)
    async with running_pair(data=str(tmp_path)) as pair:
        await pair.advance(10)
        assert (await bodies(pair.a), await bodies(pair.b)) == (["before", "later"], [])
        assert (await send(pair.b, "after"))["queueOffset"] == "0"


async def test_a_broker_that_runs_is_not_wiped(pair: Pair) -> None:
    await send(pair.b, "kept")
    with pytest.raises(BrokerStateError, match="broker-b is running; allowed: crashed or shut-down"):
        await pair.broker.broker_lives.wipe(B)
    assert await bodies(pair.b) == ["kept"]
