"""What is kept of lite topics: restarts, resets, failed transactions, memory, declarations and leaks."""

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from mocketmq.app import Emulator
from mocketmq.broker.registry.topic_config import LITE_EXPIRATION
from mocketmq.errors import IllegalMessageError, StoreUnavailableError
from mocketmq.message.message import Message
from mocketmq.settings import GroupDeclaration, TopicDeclaration
from tests.doors.grpc.lite_topics import (
    ADD,
    MINUTE_US,
    OK,
    REPLACE,
    ack,
    bodies,
    lite_client,
    make,
    no_subscriptions,
    receive,
    send,
    sync,
)
from tests.support.grpc import running_grpc


async def test_lite_topics_survive_a_restart(tmp_path: Path) -> None:
    async with running_grpc(data=str(tmp_path)) as (emulator, producer):
        await make(emulator, {LITE_EXPIRATION: "20"})
        async with lite_client(producer.port) as (client, _):
            await sync(client, ADD, "x")
            await send(producer, "x", "1", "2", "3")
            await send(producer, "y", "1")
            got = await receive(client, batch_size=2)
            await ack(client, got[0])
    async with running_grpc(data=str(tmp_path)) as (emulator, producer):
        lites = emulator.broker.registry.topics.lites
        assert [(one.name, one.next_offset) for one in lites] == [("x", 3), ("y", 1)]
        async with lite_client(producer.port) as (client, _):
            await sync(client, REPLACE, "x", "y")
            assert bodies(await receive(client)) == ["y:1"]  # a message of x is in flight
            await ack(client, got[1])
            assert bodies(await receive(client)) == ["x:3"]
            await send(producer, "x", "4")
            await send(producer, "z", "1")
            assert len({one.key for one in lites}) == 3
        await emulator.broker.mover.advance(20 * MINUTE_US)
        assert lites.count == 0
    async with running_grpc(data=str(tmp_path)) as (emulator, _):
        assert emulator.broker.registry.topics.lites.count == 0


@pytest.mark.parametrize("reset", ["all", "topic", "delete_topic"])
async def test_resets_and_deletion_remove_lite_topics(reset: str) -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator)
        async with lite_client(producer.port) as (client, _):
            await sync(client, ADD, "x")
            await send(producer, "x", "1", "2")
            await receive(client, batch_size=1)
            await getattr(emulator.broker.reset, reset)(*([] if reset == "all" else ["chats"]))
            assert emulator.broker.registry.topics.lites.count == 0
            assert await emulator.broker.store.database.rows("SELECT 1 FROM messages") == []
            if reset == "delete_topic":
                await make(emulator)
            await send(producer, "x", "3")
            assert bodies(await receive(client)) == ["x:3"]


async def test_a_failed_transaction_makes_no_lite_topic_and_deletes_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator, {LITE_EXPIRATION: "20"})
        await send(producer, "x", "1")
        database, lites = emulator.broker.store.database, emulator.broker.registry.topics.lites
        with monkeypatch.context() as broken:
            broken.setattr(database, "transact", fail)
            answer = await producer.send(producer.message("1", "chats", lite_topic="y"))
            assert answer.status.code == 50_001
            with pytest.raises(StoreUnavailableError):
                await emulator.broker.mover.advance(20 * MINUTE_US)
        assert [one.name for one in lites] == ["x"]
        await send(producer, "y", "2")
        rows = await database.rows("SELECT lite_topic FROM queues WHERE lite_topic NOT NULL ORDER BY 1")
        assert rows == [("x",), ("y",)]
        await emulator.broker.mover.advance(20 * MINUTE_US)
        assert lites.count == 0


async def fail(*_of: Any) -> None:
    raise StoreUnavailableError("no disk")


@pytest.mark.parametrize(
    ("before", "count"), [(0, 1_000), pytest.param(9_000, 3_000, marks=pytest.mark.slow)]
)
async def test_lite_topics_take_two_kilobytes_each_at_most(before: int, count: int) -> None:
    """The memory of ``count`` lite topics, besides those ``before``. Only theirs is traced, which is slow.

    With 9,000, it includes that of hash tables that grow for all of them, at 10,923.
    """

    async def add(first: int, end: int) -> None:
        for start in range(first, end, 500):
            names = [f"chat-{n}" for n in range(start, start + 500)]
            answer = await producer.send(*(producer.message("m", "chats", lite_topic=name) for name in names))
            assert answer.status.code == OK
            while got := await receive(client):
                await ack(client, *got)

    async with running_grpc() as (emulator, producer):
        await make(emulator, wildcard="true")
        async with lite_client(producer.port) as (client, _):
            await sync(client, REPLACE)
            await add(0, before)
            gc.collect()
            tracemalloc.start()
            try:
                await add(before, before + count)
                gc.collect()
                size, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        lites = emulator.broker.registry.topics.lites
        assert lites.count == sum(one.next_offset for one in lites) == before + count
        assert size / count <= 2_048


async def test_the_timer_looks_again_when_a_lite_topic_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator, {LITE_EXPIRATION: "20"})
        woken = []
        monkeypatch.setattr(emulator.broker.registry.topics.lites, "on_made", lambda: woken.append(1))
        await send(producer, "x", "1", "2")
        await send(producer, "x", "3")
        assert woken == [1]


async def test_a_refused_message_makes_no_lite_topic() -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator)
        answer = await producer.send(
            producer.message("m", "chats", lite_topic="x", properties={"a": "b" * 20_000})
        )
        assert answer.status.code == 43_101
        message = Message("chats", b"m", {"__LITE_TOPIC": "x", "a": "b\x01"})
        with pytest.raises(IllegalMessageError):
            await emulator.broker.sender.send(message)
        assert emulator.broker.registry.topics.lites.count == 0


async def test_the_settings_declare_lite_topics() -> None:
    topics = (TopicDeclaration(name="chats", type="lite", lite_expiration=30),)
    groups = (
        GroupDeclaration(name="agents", lite_parent="chats", lite_exclusive=True, lite_quota=2),
        GroupDeclaration(name="audit", lite_parent="chats", lite_wildcard=True),
    )
    async with running_grpc(topics=topics, groups=groups) as (emulator, producer):
        async with (
            lite_client(producer.port, "a@1") as (one, _),
            lite_client(producer.port, "b@1") as (two, _),
            lite_client(producer.port, "c@1", group="audit") as (auditor, _),
        ):
            assert (await sync(one, ADD, "x", "y", "z")).code == 42_902
            await sync(one, ADD, "x", "y")
            await sync(two, ADD, "x")
            await sync(auditor, REPLACE, group="audit")
            for name in ("x", "y", "z"):
                await send(producer, name, "1")
            assert bodies(await receive(one)) == ["y:1"]
            assert bodies(await receive(two)) == ["x:1"]
            assert bodies(await auditor.receive("audit", "chats")) == ["x:1", "y:1", "z:1"]
        await emulator.broker.mover.advance(30 * MINUTE_US)
        assert emulator.broker.registry.topics.lites.count == 0


async def leaks(emulator: Emulator) -> set[tuple[str | None, str]]:
    """The lite topics and states of the leaks of ``agents``."""
    _, found = await emulator.broker.leaks.find_leaks("agents", 10, 0)
    return {(leak.seen.sent.queue.lite_topic, leak.status.state) for leak in found}


@pytest.mark.parametrize("wildcard", [False, True])
async def test_lite_topics_that_a_group_has_nothing_to_do_with_do_not_leak(wildcard: bool) -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator, {}, **({"wildcard": "true"} if wildcard else {}))
        async with lite_client(producer.port) as (client, _):
            await sync(client, REPLACE, "ann", "bob")
            await send(producer, "ann", "1", "2")
            [first, second] = await receive(client)
            await ack(client, first)
            await send(producer, "bob", "1")
            await send(producer, "eve", "1")
            others = {("bob", "not taken"), *([("eve", "not taken")] if wildcard else [])}
            assert await leaks(emulator) == {("ann", "in flight"), *others}
            await ack(client, second)
            assert await leaks(emulator) == others
        await no_subscriptions(emulator)
        await send(producer, "ann", "3")
        assert await leaks(emulator) == {("ann", "not taken"), *(others if wildcard else ())}
