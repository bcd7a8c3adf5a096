"""Lite topics over gRPC: subscriptions, order, the models of groups, expiry and quotas."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from mocketmq.broker.registry.groups import LITE_BIND_TOPIC, USUAL
from mocketmq.broker.registry.topic_config import LITE_EXPIRATION
from mocketmq.grpc_proxy.clients import LITE_PUSH_CONSUMER, LITE_SIMPLE_CONSUMER
from mocketmq.grpc_proxy.messages import message_class
from tests.doors.grpc.lite_topics import (
    ADD,
    LEAVE,
    LITE,
    MINUTE_US,
    OK,
    REMOVE,
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
from tests.doors.remoting.gates import until
from tests.support.grpc import running_grpc

FORBIDDEN, FAILED = 40_300, 50_001


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


async def test_a_waiting_client_gets_the_messages_of_a_later_subscription() -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator)
        async with lite_client(producer.port) as (client, _):
            await send(producer, "ann", "1")
            waiting = asyncio.create_task(receive(client, wait_s=20))
            await until(lambda: emulator.broker.polls.count)
            await sync(client, ADD, "ann")
            assert bodies(await waiting) == ["ann:1"]
            await sync(client, LEAVE)
            waiting = asyncio.create_task(receive(client, wait_s=20))
            await until(lambda: emulator.broker.polls.count)
            await sync(client, REPLACE, "bob")
            await send(producer, "bob", "1")
            assert bodies(await waiting) == ["bob:1"]


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
            "there are already 2 lite topics",
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


async def test_a_second_stream_without_settings_takes_no_subscription_with_it() -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator)
        async with lite_client(producer.port) as (client, _):
            await sync(client, ADD, "ann")
            async with client.telemetry() as second:
                await second.say(message_class("TelemetryCommand")(thread_stack_trace={}))
                await client.call("Heartbeat")  # by its answer, the broker has begun the stream
            await client.call("Heartbeat")
            await send(producer, "ann", "1")
            assert bodies(await receive(client)) == ["ann:1"]
        await no_subscriptions(emulator)


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


async def test_the_only_broker_takes_no_lite_topics_while_it_is_closed() -> None:
    async with running_grpc() as (emulator, producer):
        await make(emulator)
        lives = emulator.broker.broker_lives
        message = producer.message("x", "chats", lite_topic="ann")
        await lives.set_read_only("broker-a", is_read_only=True)
        assert (await producer.send(message)).status.code == FORBIDDEN
        await lives.crash("broker-a")
        refused = (await producer.send(message)).status
        assert (refused.code, "is crashed; start it again" in refused.message) == (FAILED, True)
        await lives.start("broker-a")
        await send(producer, "ann", "y")


async def test_lite_topics_are_served_while_one_of_two_brokers_is_down() -> None:
    async with running_grpc(brokers=2) as (emulator, producer):
        await make(emulator)
        async with lite_client(producer.port) as (client, _):
            await sync(client, ADD, "ann")
            await emulator.broker.broker_lives.crash("broker-a")
            await send(producer, "ann", "1")
            got = await receive(client)
            assert bodies(got) == ["ann:1"]
            await ack(client, *got)
