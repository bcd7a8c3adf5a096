"""Letting a group go on elsewhere by 222: offsets that are stored, and clients that are told by 220."""

import json
from typing import Any

import pytest

from mocketmq.clock import wall_us
from tests.doors.remoting.consuming import (
    HEART_BEAT,
    RESET_CLIENT,
    RESET_OFFSET,
    beat,
    commit,
    committed,
    consumer,
    join,
)
from tests.support.brokers import GROUP, TOPIC, S, bodies, receive, send
from tests.support.remoting import Remoting, RemotingClient, running_remoting


async def stepped(remoting: Remoting, count: int = 6) -> list[int]:
    """Messages in queue 0, each a second after the one before; when that was, in milliseconds."""
    times = []
    for n in range(count):
        times.append(remoting.broker.clock.now_us() // 1_000)
        await send(remoting.broker, str(n), queue=0)
        await remoting.broker.mover.advance(1 * S)
    return times


async def reset(client: RemotingClient, timestamp: int, *, force: bool = False, **more: str) -> bytes:
    """What a reset is answered, which must succeed."""
    ext = {"topic": TOPIC, "group": GROUP, "timestamp": str(timestamp), "isForce": str(force).lower()}
    answer = await client.ok(RESET_OFFSET, ext | more)
    assert (answer.ext, answer.remark) == ({}, None)
    return answer.body


def table(*offsets: int) -> bytes:
    """Offsets by queue, as Java and Go read them: with objects for keys."""
    entries = [
        f'{{"brokerName":"broker-a","queueId":{queue_id},"topic":"{TOPIC}"}}:{offset}'
        for queue_id, offset in enumerate(offsets)
    ]
    return f'{{"offsetTable":{{{",".join(entries)}}}}}'.encode()


def as_it_is(remoting: Remoting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the client's clock for the emulated one."""
    monkeypatch.setattr(remoting.broker.clock, "from_wall", lambda instant_us: instant_us)


@pytest.mark.parametrize(
    ("after_s", "force", "offset"),
    [
        (2, False, 2),
        (2, True, 2),
        (0, False, 0),
        (5, False, 4),
        (5, True, 5),
        (None, False, 4),
        (None, True, 6),
    ],
)
async def test_a_group_goes_on_where_it_is_told_to(
    after_s: int | None, force: bool, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_remoting() as remoting:
        times = await stepped(remoting)
        as_it_is(remoting, monkeypatch)
        await commit(remoting.client, 4)
        timestamp = -1 if after_s is None else times[after_s]
        assert await reset(remoting.client, timestamp, force=force) == table(offset, 0, 0, 0)
        assert await committed(remoting.client) == offset
        assert bodies(await receive(remoting.broker)) == [str(n) for n in range(offset, 6)]


async def test_a_group_without_offsets_begins_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_remoting() as remoting:
        times = await stepped(remoting)
        as_it_is(remoting, monkeypatch)
        assert await reset(remoting.client, times[3], force=True) == table(3, 0, 0, 0)
        assert await committed(remoting.client) == 3


async def test_what_was_taken_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_remoting() as remoting:
        times = await stepped(remoting)
        as_it_is(remoting, monkeypatch)
        assert len(await receive(remoting.broker)) == 6
        await commit(remoting.client, 5)
        await reset(remoting.client, times[1])
        assert bodies(await receive(remoting.broker)) == ["1", "2", "3", "4", "5"]


async def test_times_are_those_of_the_client_s_clock() -> None:
    async with running_remoting(clock="real") as remoting:
        await send(remoting.broker, "old", queue=0)
        await remoting.broker.mover.advance(7200 * S)
        await send(remoting.broker, "new", queue=0)
        await commit(remoting.client, 2)
        an_hour_ago_ms = wall_us() // 1_000 - 3_599_000
        assert await reset(remoting.client, an_hour_ago_ms) == table(1, 0, 0, 0)


@pytest.mark.parametrize("language", ["JAVA", "GO", "CPP"])
async def test_clients_of_the_group_are_told(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_remoting() as remoting, remoting.another() as admin:
        client = remoting.client
        times = await stepped(remoting)
        as_it_is(remoting, monkeypatch)
        await client.ok(HEART_BEAT, body=beat(consumer()), language=language)
        await client.push()
        await commit(client, 4)
        await reset(admin, times[1], force=True)
        pushed = await client.push()
        assert (pushed.code, pushed.is_oneway, pushed.ext) == (
            RESET_CLIENT,
            True,
            {"topic": TOPIC, "group": GROUP, "timestamp": str(times[1]), "isForce": "true"},
        )
        if language == "CPP":
            queues = [
                {"brokerName": "broker-a", "queueId": n, "topic": TOPIC, "offset": 1 if n == 0 else 0}
                for n in range(4)
            ]
            assert json.loads(pushed.body) == {"offsetTable": queues}
        else:
            assert pushed.body == table(1, 0, 0, 0)
        # It goes back itself when it has heard of it, and what it told on the way does not stay.
        await commit(client, 5)
        await commit(client, 1)
        assert await committed(client) == 1
        assert admin.pushes.empty()


async def test_a_broadcast_is_told_as_well() -> None:
    async with running_remoting() as remoting:
        await stepped(remoting, 1)
        await remoting.client.ok(HEART_BEAT, body=beat(consumer(messageModel="BROADCASTING")))
        await reset(remoting.client, -1, force=True)
        assert (await remoting.client.push()).ext["isForce"] == "true"


@pytest.mark.parametrize(
    ("given", "code", "remark"),
    [
        (
            {"topic": "nowhere"},
            17,
            "[reset-offset] reset offset failed, no topic in this broker. topic=nowhere",
        ),
        ({"group": "nobody"}, 26, "subscription group not exist, nobody"),
        ({"timestamp": "now"}, 1, "timestamp is 'now'; allowed: a whole number of 64 bits"),
        ({"isForce": "perhaps"}, 1, "isForce is 'perhaps'; allowed: true or false"),
    ],
)
async def test_a_reset_is_refused(given: dict[str, Any], code: int, remark: str) -> None:
    async with running_remoting(auto_create_groups=False) as remoting:
        await stepped(remoting, 1)
        await remoting.broker.registry.groups.put(GROUP, 16, 1)
        await join(remoting.client)
        ext = {"topic": TOPIC, "group": GROUP, "timestamp": "-1", "isForce": "true"}
        answer = await remoting.client.call(RESET_OFFSET, ext | given)
        assert (answer.code, answer.remark) == (code, remark)
        assert await committed(remoting.client) == 0
        assert remoting.client.pushes.empty()
