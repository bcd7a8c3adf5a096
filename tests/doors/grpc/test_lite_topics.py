"""Lite topics over gRPC: subscriptions, order, the models of groups, expiry, quotas and restarts."""

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mocketmq.broker.registry.groups import LITE_BIND_TOPIC, USUAL
from mocketmq.broker.registry.topic import LITE_EXPIRATION, PLAIN
from mocketmq.emulator import Emulator
from mocketmq.errors import IllegalMessageError, StoreUnavailableError
from mocketmq.grpc_proxy.clients import LITE_PUSH_CONSUMER, LITE_SIMPLE_CONSUMER
from mocketmq.message.message import Message
from mocketmq.settings import GroupDeclaration, TopicDeclaration
from tests.support.grpc import GrpcClient, Telemetry, grpc_client, running_grpc
from tests.support.patience import PATIENCE_S

ADD, REMOVE, REPLACE, LEAVE = range(4)
LITE = 5
OK = 20_000
MINUTE_US = 60_000_000


async def make(emulator: Emulator, topic: Mapping[str, str] = {}, **group: str) -> None:
    """Create the topic ``chats`` of lite topics, and a group that consumes them, with these attributes."""
    registry = emulator.broker.registry
    attributes = {"message.type": "LITE", **topic}
    await registry.topics.put("chats", 4, 4, 6, replace(PLAIN, attributes=attributes))
    of_group = {f"lite.sub.{name.replace('_', '.')}": value for name, value in group.items()}
    config = replace(USUAL, attributes={LITE_BIND_TOPIC: "chats", **of_group})
    await registry.groups.put("agents", 16, 1, config)


@asynccontextmanager
async def lite_client(
    port: int, client_id: str = "a@1@0@x", kind: int = LITE_PUSH_CONSUMER, group: str = "agents"
) -> AsyncIterator[tuple[GrpcClient, Telemetry]]:
    """Connect a consumer of lite topics of ``chats``."""
    entry = {"topic": {"name": "chats"}, "expression": {"type": 1, "expression": "*"}}
    subscription = {"group": {"name": group}, "subscriptions": [entry]}
    async with grpc_client(port, client_id) as client, client.telemetry() as telemetry:
        answer = await telemetry.settings(client_type=kind, subscription=subscription)
        assert answer.status.code == OK
        yield client, telemetry


async def sync(client: GrpcClient, action: int, *names: str, group: str = "agents", **more: Any) -> Any:
    """Call SyncLiteSubscription, and return the status."""
    answer = await client.call(
        "SyncLiteSubscription",
        action=action,
        topic={"name": "chats"},
        group={"name": group},
        lite_topic_set=names,
        **more,
    )
    return answer.status


async def send(client: GrpcClient, name: str, *bodies: str) -> None:
    """Send messages to a lite topic of ``chats``."""
    answer = await client.send(*(client.message(body, "chats", lite_topic=name) for body in bodies))
    assert answer.status.code == OK, answer


async def receive(client: GrpcClient, **more: Any) -> list[Any]:
    """Receive for ``agents``."""
    return await client.receive("agents", "chats", **more)


def bodies(messages: list[Any]) -> list[str]:
    return [f"{one.system_properties.lite_topic}:{one.body.decode()}" for one in messages]


async def ack(client: GrpcClient, *messages: Any) -> None:
    """Acknowledge as SDKs do, with the lite topics."""
    entries = [
        {
            "message_id": one.system_properties.message_id,
            "receipt_handle": one.system_properties.receipt_handle,
            "lite_topic": one.system_properties.lite_topic,
        }
        for one in messages
    ]
    answer = await client.call(
        "AckMessage", group={"name": "agents"}, topic={"name": "chats"}, entries=entries
    )
    assert answer.status.code == OK, answer


async def no_subscriptions(emulator: Emulator) -> None:
    """Wait until the clients have left with their subscriptions."""
    async with asyncio.timeout(PATIENCE_S):
        while emulator.broker.lite_subscriptions.count:  # noqa: ASYNC110 - no event announces it
            await asyncio.sleep(0)


@pytest.mark.parametrize("kind", [LITE_PUSH_CONSUMER, LITE_SIMPLE_CONSUMER])
async def test_a_client_gets_the_lite_topics_that_it_subscribes_to(kind: int) -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator)
        async with lite_client(producer.port, kind=kind) as (client, _):
            await send(producer, "ann", "1", "2")
            await send(producer, "bob", "1")
            assert await receive(client) == []
            assert (await sync(client, ADD, "ann")).code == OK
            got = await receive(client)
            assert bodies(got) == ["ann:1", "ann:2"]
            assert {(one.system_properties.message_type, one.topic.name) for one in got} == {(LITE, "chats")}
            assert [one.system_properties.queue_offset for one in got] == [0, 1]
            await ack(client, *got)
            await send(producer, "ann", "3")
            assert bodies(await receive(client)) == ["ann:3"]
            assert (await sync(client, ADD, "bob")).code == OK
            assert bodies(await receive(client)) == ["bob:1"]


async def test_a_lite_topic_is_in_order_and_others_go_on() -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator)
        async with lite_client(producer.port) as (client, _):
            await sync(client, REPLACE, "ann", "bob")
            await send(producer, "ann", "1", "2")
            first, second = await receive(client, invisible_s=30)
            await send(producer, "ann", "3")
            await send(producer, "bob", "1")
            assert bodies(await receive(client)) == ["bob:1"]
            await ack(client, second)
            assert await receive(client) == []
            await emulator.broker.mover.advance(30_000_000)
            again = await receive(client)
            assert bodies(again) == ["ann:1", "ann:2", "ann:3", "bob:1"]
            assert again[0].system_properties.delivery_attempt == 2
            with pytest.raises(AssertionError):
                await ack(client, first)


async def test_a_waiting_client_gets_a_message_at_once_and_after_an_ack() -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator)
        async with lite_client(producer.port) as (client, _):
            await sync(client, ADD, "ann")
            waiting = asyncio.create_task(receive(client, wait_s=20))
            await send(producer, "ann", "1")
            got = await waiting
            assert bodies(got) == ["ann:1"]
            await send(producer, "ann", "2")
            waiting = asyncio.create_task(receive(client, wait_s=20))
            await ack(client, *got)
            assert bodies(await waiting) == ["ann:2"]


async def test_in_an_exclusive_group_the_last_subscriber_wins() -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator, model="Exclusive")
        async with (
            lite_client(producer.port, "a@1") as (ann, stream),
            lite_client(producer.port, "b@1") as (bob, _),
        ):
            await sync(ann, ADD, "x", "y")
            await send(producer, "x", "1")
            await ack(ann, *await receive(ann))
            await sync(bob, ADD, "x")
            assert (await stream.command()).notify_unsubscribe_lite_command.lite_topic == "x"
            await send(producer, "x", "2")
            await send(producer, "y", "1")
            assert bodies(await receive(ann)) == ["y:1"]
            assert bodies(await receive(bob)) == ["x:2"]
            await sync(ann, REPLACE, "x", "y")  # as an SDK does that has not read the command yet
            assert (await stream.command()).notify_unsubscribe_lite_command.lite_topic == "x"
            subscriptions = emulator.broker.lite_subscriptions
            assert subscriptions.of("chats", "x") == [subscriptions.find("b@1")]


async def test_an_exclusive_group_may_begin_again_with_each_subscriber() -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator, model="Exclusive", reset_offset_exclusive="true")
        async with (
            lite_client(producer.port, "a@1") as (ann, _),
            lite_client(producer.port, "b@1") as (bob, _),
        ):
            await sync(ann, ADD, "x")
            await send(producer, "x", "1", "2")
            await ack(ann, *await receive(ann))
            await sync(bob, ADD, "x")
            assert bodies(await receive(bob)) == ["x:1", "x:2"]


async def test_in_a_shared_group_each_message_goes_to_one_client() -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator)
        async with (
            lite_client(producer.port, "a@1") as (ann, _),
            lite_client(producer.port, "b@1") as (bob, _),
        ):
            await sync(ann, ADD, "x")
            await sync(bob, ADD, "x")
            await send(producer, "x", "1", "2")
            got = await receive(ann)
            assert (bodies(got), await receive(bob)) == (["x:1", "x:2"], [])
            await ack(ann, *got)
            await send(producer, "x", "3")
            assert bodies(await receive(bob)) == ["x:3"]


async def test_a_group_with_a_wildcard_gets_every_lite_topic() -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator, wildcard="true")
        async with lite_client(producer.port) as (client, _):
            await send(producer, "x", "1")
            assert (await sync(client, ADD, "x")).code == 40_000
            assert (await sync(client, REPLACE)).code == OK
            await send(producer, "y", "1")
            assert bodies(await receive(client)) == ["x:1", "y:1"]


async def test_the_clients_of_a_group_with_a_wildcard_share_the_messages() -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator, wildcard="true")
        async with (
            lite_client(producer.port, "alice@1@0@x") as (alice, _),
            lite_client(producer.port, "bob@1@0@x") as (bob, _),
        ):
            for client in (alice, bob):
                assert (await sync(client, REPLACE)).code == OK
            await send(producer, "x", "1")
            assert bodies(await receive(alice)) == ["x:1"]
            await send(producer, "y", "1")
            assert bodies(await receive(bob)) == ["y:1"]


async def test_a_client_may_subscribe_up_to_its_quota() -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator, client_quota="2")
        async with lite_client(producer.port) as (client, telemetry):
            entry = {"group": {"name": "agents"}}
            settings = (await telemetry.settings(client_type=5, subscription=entry)).settings.subscription
            assert (settings.lite_subscription_quota, settings.max_lite_topic_size) == (2, 64)
            assert (await sync(client, ADD, "x", "y")).code == OK
            status = await sync(client, ADD, "z")
            assert (status.code, status.message.split(".")[0]) == (
                42_902,
                "lite subscription quota exceeded: 2",
            )
            assert (await sync(client, REPLACE, "y", "z")).code == OK


async def test_the_number_of_lite_topics_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mocketmq.broker.registry.lite_topics.MAX_LITE_TOPICS", 2)
    async with running_grpc() as (emulator, producer):
        await make(emulator)
        await send(producer, "x", "1")
        await send(producer, "y", "1")
        answer = await producer.send(producer.message("1", "chats", lite_topic="z"))
        assert (answer.status.code, answer.status.message.split(";")[0]) == (
            42_901,
            "there are 2 lite topics",
        )
        await send(producer, "x", "2")


async def test_a_lite_topic_expires_on_the_clock_of_the_broker() -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator, {LITE_EXPIRATION: "20"})
        lites, advance = emulator.broker.registry.topics.lites, emulator.broker.mover.advance
        async with lite_client(producer.port) as (client, _):
            await sync(client, ADD, "x", "y")
            await send(producer, "x", "1", "2")
            await send(producer, "y", "1")
            await ack(client, (await receive(client))[0])
            await advance(10 * MINUTE_US)
            await send(producer, "y", "2")
            await advance(10 * MINUTE_US - 1)
            assert [one.name for one in lites] == ["x", "y"]
            await advance(1)
            assert [one.name for one in lites] == ["y"]
            rows = emulator.broker.store.database.rows
            assert await rows("SELECT lite_topic FROM queues WHERE lite_topic NOT NULL") == [("y",)]
            assert await rows("SELECT count(*) FROM messages WHERE body = CAST('1' AS BLOB)") == [(1,)]
            assert len(await rows("SELECT * FROM receipts")) == 1
            await send(producer, "x", "3")
            got = await receive(client)
            assert bodies(got) == ["y:1", "y:2", "x:3"]
            assert got[2].system_properties.queue_offset == 0


async def test_a_lite_topic_lives_for_a_quarter_of_an_hour_at_least() -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator, {LITE_EXPIRATION: "1"})
        await send(producer, "x", "1")
        await emulator.broker.mover.advance(15 * MINUTE_US - 1)
        assert emulator.broker.registry.topics.lites.count == 1
        await emulator.broker.mover.advance(1)
        assert emulator.broker.registry.topics.lites.count == 0


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ({"policy": 0}, ["x:4"]),
        ({"policy": 1}, ["x:1", "x:2", "x:3", "x:4"]),
        ({"policy": 2}, []),
        ({"offset": 2}, ["x:3", "x:4"]),
        ({"offset": 99}, []),
        ({"tail_n": 2}, ["x:2", "x:3", "x:4"]),
        ({"timestamp": 0}, ["x:1", "x:2", "x:3", "x:4"]),
        ({"timestamp": 9_999_999_999_999}, []),
    ],
)
async def test_a_subscription_may_say_where_it_begins(start: Mapping[str, int], expected: list[str]) -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator)
        async with lite_client(producer.port) as (client, _):
            await sync(client, ADD, "x")
            await send(producer, "x", "1", "2", "3")
            await ack(client, *await receive(client))
            await sync(client, REMOVE, "x")
            await send(producer, "x", "4")
            assert await receive(client) == []
            assert (await sync(client, ADD, "x", offset_option=start)).code == OK
            assert bodies(await receive(client)) == expected


async def test_suspended_messages_come_again_together_and_the_attempt_does_not_count() -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator)
        async with lite_client(producer.port) as (client, _):
            await sync(client, ADD, "x")
            await send(producer, "x", "1", "2")
            got = await receive(client)
            change: dict[str, Any] = {
                "group": {"name": "agents"},
                "topic": {"name": "chats"},
                "receipt_handle": got[0].system_properties.receipt_handle,
                "invisible_duration": {"seconds": 60},
                "lite_topic": "x",
                "suspend": True,
            }
            assert (await client.call("ChangeInvisibleDuration", **change)).status.code == OK
            await emulator.broker.mover.advance(MINUTE_US - 1)
            assert await receive(client) == []
            await emulator.broker.mover.advance(1)
            again = await receive(client)
            assert bodies(again) == ["x:1", "x:2"]
            assert [one.system_properties.delivery_attempt for one in again] == [1, 1]
            await ack(client, *again)


async def test_a_message_with_a_lite_topic_becomes_a_dead_letter() -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator)
        async with lite_client(producer.port) as (client, _):
            await sync(client, ADD, "x")
            await send(producer, "x", "1", "2")
            got = await receive(client)
            dead = await client.call(
                "ForwardMessageToDeadLetterQueue",
                group={"name": "agents"},
                topic={"name": "chats"},
                receipt_handle=got[0].system_properties.receipt_handle,
                lite_topic="x",
            )
            assert dead.status.code == OK
            [letter] = await producer.receive("undertaker", "%DLQ%agents")
            assert (letter.body, letter.system_properties.lite_topic) == (b"1", "x")


async def test_a_client_leaves_with_its_subscription() -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator)
        async with lite_client(producer.port, "a@1") as (client, _):
            await sync(client, ADD, "x")
            await client.call("NotifyClientTermination", group={"name": "agents"})
            assert emulator.broker.lite_subscriptions.count == 0
            await sync(client, ADD, "x")
            await sync(client, LEAVE)
            assert emulator.broker.lite_subscriptions.count == 0
            await sync(client, ADD, "x", "y")
            assert emulator.broker.lite_subscriptions.count == 2
        await no_subscriptions(emulator)


@pytest.mark.parametrize(
    ("system", "code"),
    [
        ({"lite_topic": "a b"}, 40_020),
        ({"lite_topic": ""}, 40_020),
        ({"lite_topic": "x" * 65}, 40_020),
        ({}, 40_014),
        ({"lite_topic": "x", "message_group": "g"}, 40_014),
        ({"lite_topic": "x", "priority": 1}, 40_014),
    ],
)
async def test_messages_that_are_not_for_a_lite_topic_are_refused(
    system: Mapping[str, Any], code: int
) -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator)
        assert (await producer.send(producer.message("m", "chats", **system))).status.code == code
        assert emulator.broker.registry.topics.lites.count == 0


async def test_a_topic_of_another_type_has_no_lite_topics() -> None:
    async with running_grpc() as (_, producer):
        answer = await producer.send(producer.message("m", "orders", lite_topic="x"))
        assert answer.status.code == 40_014


async def test_groups_consume_either_lite_topics_or_whole_topics() -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator)
        groups = emulator.broker.registry.groups
        await groups.put("billing", 16, 1)
        await groups.put("others", 16, 1, replace(USUAL, attributes={LITE_BIND_TOPIC: "z"}))
        async with lite_client(producer.port) as (client, _), producer.telemetry() as telemetry:
            await telemetry.consume("agents", "chats")
            status, _ = await producer.try_receive("agents", "chats")
            assert (status.code, status.message.split(".")[0]) == (
                40_003,
                "lite group must use LITE mode: agents",
            )
            status = await sync(client, ADD, "x", group="billing")
            assert (status.code, status.message.split(".")[0]) == (
                40_003,
                "regular group cannot use LITE mode: billing",
            )
            assert (await sync(client, ADD, "x", group="others")).code == 40_002
            assert (await sync(client, ADD, "x", group="new")).code == OK
            assert groups.get("new").config.lite_parent == "chats"


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
