"""Resets of a group's offsets by 222; clients learn of a reset by 220 or by their next pull."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mocketmq.clock import wall_us
from mocketmq.rocketmq_versions import V4_9_8, V5_0_0
from tests.doors.remoting.consuming import (
    COMMIT,
    HEART_BEAT,
    PULL,
    RESET_CLIENT,
    RESET_OFFSET,
    SUBSCRIPTION,
    SUSPEND,
    UPDATE_OFFSET,
    beat,
    commit,
    committed,
    consumer,
    join,
    place,
    pull,
    pull_of,
)
from tests.doors.remoting.consuming import bodies as pulled
from tests.doors.remoting.popping import ack, messages, pop, pop_later
from tests.doors.remoting.producing import stepped
from tests.support.brokers import GROUP, TOPIC, S, acknowledge, bodies, receive, send
from tests.support.patience import PATIENCE_S
from tests.support.remoting import Remoting, RemotingClient, running_remoting


async def reset(client: RemotingClient, timestamp: int, *, force: bool = False, **more: str) -> bytes:
    """Reset a group, which must succeed, and return the answer."""
    ext = {"topic": TOPIC, "group": GROUP, "timestamp": str(timestamp), "isForce": str(force).lower()}
    answer = await client.ok(RESET_OFFSET, ext | more)
    assert (answer.ext, answer.remark) == ({}, None)
    return answer.body


def table(*offsets: int) -> bytes:
    """Return offsets by queue in the format that Java and Go read, with objects as keys."""
    entries = [
        f'{{"brokerName":"broker-a","queueId":{queue_id},"topic":"{TOPIC}"}}:{offset}'
        for queue_id, offset in enumerate(offsets)
    ]
    return f'{{"offsetTable":{{{",".join(entries)}}}}}'.encode()


async def waits(remoting: Remoting, count: int = 1) -> None:
    """Wait until this many long polls are waiting."""
    async with asyncio.timeout(PATIENCE_S):
        while remoting.broker.polls.count < count:  # noqa: ASYNC110
            await asyncio.sleep(0)


def as_it_is(remoting: Remoting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat the client's clock as the emulated clock."""
    monkeypatch.setattr(remoting.broker.clock, "from_wall", lambda instant_us: instant_us)


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("after_s", "force", "offset"),
    [
        (2, False, 2),
        (2, True, 2),
        (0, False, 0),
        (5, False, 5),
        (5, True, 5),
        (None, False, 6),
        (None, True, 6),
    ],
)
async def test_a_group_continues_at_the_reset_offset(
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


@pytest.mark.interpreted
async def test_group_without_offsets_starts_at_the_reset_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_remoting() as remoting:
        times = await stepped(remoting)
        as_it_is(remoting, monkeypatch)
        assert await reset(remoting.client, times[3], force=True) == table(3, 0, 0, 0)
        assert await committed(remoting.client) == 3


@pytest.mark.interpreted
async def test_messages_in_flight_are_visible_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_remoting() as remoting:
        times = await stepped(remoting)
        as_it_is(remoting, monkeypatch)
        assert len(await receive(remoting.broker)) == 6
        await commit(remoting.client, 5)
        await reset(remoting.client, times[1])
        assert bodies(await receive(remoting.broker)) == ["1", "2", "3", "4", "5"]


async def test_reset_timestamps_are_wall_clock_times() -> None:
    async with running_remoting(clock="real") as remoting:
        await send(remoting.broker, "old", queue=0)
        await remoting.broker.mover.advance(7200 * S)
        await send(remoting.broker, "new", queue=0)
        await commit(remoting.client, 2)
        an_hour_ago_ms = wall_us() // 1_000 - 3_599_000
        assert await reset(remoting.client, an_hour_ago_ms) == table(1, 0, 0, 0)


@pytest.mark.interpreted
@pytest.mark.parametrize("language", ["JAVA", "GO", "CPP"])
async def test_clients_of_the_group_are_notified(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert admin.pushes.empty()


@pytest.mark.interpreted
@pytest.mark.parametrize(("model", "is_told"), [("CLUSTERING", False), ("BROADCASTING", True)])
async def test_clients_of_5_learn_of_a_reset_by_their_next_pull(
    model: str, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        await stepped(remoting)
        as_it_is(remoting, monkeypatch)
        await client.ok(HEART_BEAT, body=beat(consumer(messageModel=model)), version=V5_0_0)
        if model == "CLUSTERING":
            await client.push()
        await commit(client, 4)
        await reset(client, 0, force=True)
        if is_told:
            assert (await client.push()).code == RESET_CLIENT
        assert client.pushes.empty()
        answer = await pull(client, 6)
        assert answer.remark == ("OFFSET_OVERFLOW_ONE" if is_told else "OFFSET_RESET")


# Consumers that do not know of the reset yet


@pytest.mark.interpreted
async def test_commits_are_ignored_until_the_client_knows_of_the_reset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_remoting() as remoting, remoting.another() as admin:
        client = remoting.client
        times = await stepped(remoting)
        as_it_is(remoting, monkeypatch)
        await commit(client, 4)
        await reset(admin, times[1])
        for offset in (5, 6):
            ignored = await client.ok(UPDATE_OFFSET, place(commitOffset=offset))
            assert ignored.remark == "Offset has been previously reset"
            assert await committed(client) == 1
        told = await pull(client, 6, COMMIT | SUBSCRIPTION, commitOffset=6)
        assert (told.code, told.remark, told.ext["nextBeginOffset"]) == (21, "OFFSET_RESET", "1")
        await commit(client, 6)  # the last message that it was processing
        assert await committed(client) == 1
        assert pulled(await pull(client, 1)) == ["1", "2", "3", "4", "5"]
        await commit(client, 3)
        assert await committed(client) == 3


@pytest.mark.interpreted
async def test_a_client_at_the_reset_offset_needs_no_notification(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        times = await stepped(remoting)
        as_it_is(remoting, monkeypatch)
        await commit(client, 4)
        await reset(client, times[1])
        assert len(pulled(await pull(client, 1))) == 5
        await commit(client, 2)
        assert await committed(client) == 2


@pytest.mark.interpreted
async def test_notified_client_may_commit_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_remoting() as remoting:
        client = remoting.client
        times = await stepped(remoting)
        as_it_is(remoting, monkeypatch)
        await commit(client, 4)
        await reset(client, times[1])
        assert (await pull(client, 5)).code == 21
        assert pulled(await pull(client, 5)) == ["5"]
        await commit(client, 6)
        assert await committed(client) == 6


async def test_all_waiting_pulls_of_the_queue_are_answered_at_once() -> None:
    """A member that has handed over the queue may still wait for its messages."""
    async with running_remoting() as remoting, remoting.another() as other:
        await stepped(remoting, 3)
        await commit(remoting.client, 3)
        wait = pull_of(3, SUSPEND | SUBSCRIPTION, suspendTimeoutMillis=60_000)
        waiting = [client.ask(PULL, wait) for client in (other, remoting.client)]
        await waits(remoting, 2)
        await reset(remoting.client, 0, force=True)
        for told in waiting:
            answer = await told
            assert (answer.code, answer.remark, answer.ext["nextBeginOffset"]) == (21, "OFFSET_RESET", "0")
        await commit(other, 3)
        assert await committed(other) == 0
        assert len(pulled(await pull(other, 0))) == 3


@pytest.mark.parametrize("kind", ["CONSUME_PASSIVELY", "CONSUME_ACTIVELY"])
async def test_a_notified_client_keeps_waiting(kind: str) -> None:
    """As in 4.9.8; the C++ client would mistake an answer for its next pull's, and then pull twice at a time.

    Lite pull consumers ignore the notification.
    """
    async with running_remoting() as remoting:
        await stepped(remoting, 3)
        await join(remoting.client, consumeType=kind)
        await commit(remoting.client, 3)
        waiting = remoting.client.ask(PULL, pull_of(3, SUSPEND | SUBSCRIPTION, suspendTimeoutMillis=60_000))
        await waits(remoting)
        await reset(remoting.client, 0, force=True)
        assert (await remoting.client.push()).code == RESET_CLIENT
        if kind == "CONSUME_ACTIVELY":
            assert (await waiting).remark == "OFFSET_RESET"
        assert len(pulled(await pull(remoting.client, 0))) == 3
        await send(remoting.broker, "new", queue=0)
        if kind == "CONSUME_PASSIVELY":
            assert pulled(await waiting) == ["new"]


async def test_a_queue_that_was_not_reassigned_continues() -> None:
    async with running_remoting(server_version=V4_9_8) as remoting:
        await stepped(remoting, 3)
        await commit(remoting.client, 1)
        assert await reset(remoting.client, -1) == table(1, 0, 0, 0)
        assert len(pulled(await pull(remoting.client, 2))) == 1
        await commit(remoting.client, 3)
        assert await committed(remoting.client) == 3


# Popped or received messages


async def freed(remoting: Remoting, offset: int = 4) -> None:
    """Reset queue 0 to the offset."""
    await reset(remoting.client, 0, queueId="0", offset=str(offset))


@pytest.mark.parametrize("order", [False, True])
async def test_popped_messages_are_popped_again(order: bool) -> None:
    async with running_remoting() as remoting:
        await stepped(remoting, 10)
        first = await pop(remoting.client, order=order, attemptId="a")
        assert len(first) == 10
        assert await pop(remoting.client, order=order, attemptId="b") == []
        waiting = pop_later(remoting.client, order=order, attemptId="c")
        await waits(remoting)
        await freed(remoting)
        again = messages(await waiting)
        assert [(one.body, one.times) for one in again] == [(str(n), 0) for n in range(4, 10)]
        assert await committed(remoting.client) == 4
        if not order:  # an ordered pop's handles name the queue's last pop
            assert await ack(remoting.client, first[9].handle) == 208
        assert [await ack(remoting.client, one.handle) for one in again] == [0] * 6
        assert await committed(remoting.client) == 10


@pytest.mark.parametrize("ordered", [False, True])
async def test_received_messages_are_received_again(ordered: bool) -> None:
    async with running_remoting() as remoting:
        await stepped(remoting, 10)
        assert len(await receive(remoting.broker, ordered=ordered)) == 10
        waiting = asyncio.create_task(receive(remoting.broker, ordered=ordered, wait_s=60))
        await waits(remoting)
        await freed(remoting)
        again = await waiting
        assert bodies(again) == ["4", "5", "6", "7", "8", "9"]
        assert len((await acknowledge(remoting.broker, again)).done) == 6
        assert await committed(remoting.client) == 10


async def test_freed_messages_stay_visible_after_a_restart(tmp_path: Path) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        await stepped(remoting, 10)
        assert len(await pop(remoting.client)) == 10
        await freed(remoting)
    async with running_remoting(data=str(tmp_path)) as remoting:
        assert [one.body for one in await pop(remoting.client)] == ["4", "5", "6", "7", "8", "9"]


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
async def test_invalid_reset_is_refused(given: dict[str, Any], code: int, remark: str) -> None:
    async with running_remoting(auto_create_groups=False) as remoting:
        await stepped(remoting, 1)
        await remoting.broker.registry.groups.put(GROUP, 16, 1)
        await join(remoting.client)
        ext = {"topic": TOPIC, "group": GROUP, "timestamp": "-1", "isForce": "true"}
        answer = await remoting.client.call(RESET_OFFSET, ext | given)
        assert (answer.code, answer.remark) == (code, remark)
        assert await committed(remoting.client) == 0
        assert remoting.client.pushes.empty()
