"""Priority messages over gRPC, as SendMessageActivity, RouteActivity and GrpcConverter of 5.5.0 have them."""

from typing import Any

import pytest

from mocketmq import Client
from mocketmq.message.message import Message
from mocketmq.settings import TopicDeclaration
from tests.support.brokers import GROUP, TOPIC, S
from tests.support.grpc import TRANSACTION, GrpcClient, running_grpc

NORMAL, PRIORITY = 1, 6
OK, WRONG_TYPE, INTERNAL = 20_000, 40_014, 50_001
TOPICS = (TopicDeclaration(name=TOPIC, type="priority", read_queues=10, write_queues=10),)
TYPED: dict[str, Any] = {"topics": TOPICS}


async def send_all(client: GrpcClient, *priorities: int) -> None:
    for priority in priorities:
        answer = await client.send(client.message(str(priority), priority=priority, message_type=PRIORITY))
        assert answer.status.code == OK, answer.status


def seen(messages: list[Any]) -> list[tuple[str, int]]:
    """Return bodies and attempts in the order of the response."""
    return [(one.body.decode(), one.system_properties.delivery_attempt) for one in messages]


async def test_highest_priority_is_received_first_with_its_priority_and_type() -> None:
    async with running_grpc(**TYPED) as (_, client):
        await send_all(client, 3, 0, 9, 5, 9)
        first = await client.receive(batch_size=2)
        assert seen(first) == [("9", 1), ("9", 1)]
        rest = await client.receive()
        assert seen(rest) == [("5", 1), ("3", 1), ("0", 1)]
        for message in rest:
            system = message.system_properties
            assert (system.message_type, system.priority) == (PRIORITY, int(message.body))
            assert system.HasField("priority")
            assert dict(message.user_properties) == {}


async def test_a_message_without_priority_has_none() -> None:
    async with running_grpc() as (_, client):
        await client.send(client.message("m", message_type=PRIORITY))  # the declared type alone is nothing
        [message] = await client.receive()
        assert message.system_properties.message_type == NORMAL
        assert not message.system_properties.HasField("priority")


async def test_ten_priorities_through_attempts_until_they_are_dead_letters() -> None:
    async with running_grpc(**TYPED) as (emulator, client):
        await emulator.broker.registry.groups.put(GROUP, 2, 1)
        await send_all(client, *range(10))
        assert seen(await client.receive()) == [(str(priority), 1) for priority in reversed(range(10))]
        for attempt in (2, 3):
            await emulator.broker.mover.advance(30 * S)
            await send_all(client, 0)
            new, *again = await client.receive()
            assert seen([new]) == [("0", 1)]
            assert seen(again) == [(str(priority), attempt) for priority in range(10)]  # as they were sent
            await client.ack(new)
        await emulator.broker.mover.advance(30 * S)
        assert await client.receive() == []
        dead = await client.receive("undertaker", f"%DLQ%{GROUP}")
        assert sorted(one.system_properties.priority for one in dead) == list(range(10))


async def test_a_changed_invisible_duration_delays_the_redelivery() -> None:
    async with running_grpc(**TYPED) as (emulator, client):
        await send_all(client, 9, 1)
        [nine] = await client.receive(batch_size=1)
        assert (await client.change(nine, 60)).status.code == OK
        await emulator.broker.mover.advance(30 * S)
        [one] = await client.receive()
        assert seen([one]) == [("1", 1)]
        await client.ack(one)
        await emulator.broker.mover.advance(30 * S)
        assert seen(await client.receive()) == [("9", 2)]


async def test_routes_name_the_type_but_not_for_mixed_topics() -> None:
    topics = (*TOPICS, TopicDeclaration(name="mixed", type="mixed"))
    async with running_grpc(topics=topics) as (_, client):
        for topic, types in ((TOPIC, (PRIORITY,)), ("mixed", (1, 2, 3, 4))):
            route = await client.call("QueryRoute", topic={"name": topic})
            assert {tuple(queue.accept_message_types) for queue in route.message_queues} == {types}
        assert (await client.send(client.message("m", "mixed", priority=9))).status.code == OK


async def test_messages_of_the_wrong_type_are_refused() -> None:
    async with running_grpc(topics=(*TOPICS, TopicDeclaration(name="normal", type="normal"))) as (_, client):
        answer = await client.send(client.message("m"))
        assert (answer.status.code, answer.status.message) == (
            WRONG_TYPE,
            "topic orders accepts PRIORITY messages; this is a NORMAL message",
        )
        answer = await client.send(client.message("m", "normal", priority=9))
        assert (answer.status.code, answer.status.message) == (
            WRONG_TYPE,
            "topic normal accepts NORMAL messages; this is a PRIORITY message",
        )


@pytest.mark.parametrize(
    ("system", "code", "sentence"),
    [
        ({"priority": -1}, INTERNAL, "priority is -1; allowed: a whole number of at least 0"),
        ({"priority": 9, "delay_s": 10}, WRONG_TYPE, "none together with the property TIMER_DELIVER_MS"),
        ({"priority": 9, "message_group": "g"}, WRONG_TYPE, "none together with the property __SHARDINGKEY"),
        ({"priority": 9, "message_type": TRANSACTION}, WRONG_TYPE, "a transactional message cannot have one"),
    ],
)
async def test_a_priority_without_effect_is_refused(system: dict[str, Any], code: int, sentence: str) -> None:
    async with running_grpc() as (_, client):
        answer = await client.send(client.message("m", **system))
        assert answer.status.code == code
        assert sentence in answer.status.message
        assert await client.receive() == []


@pytest.mark.parametrize("text", ["high", "-1", "99999999999"])
async def test_a_retry_with_a_wrong_priority_is_received_without(text: str) -> None:
    async with running_grpc() as (emulator, client):
        await emulator.broker.registry.groups.put(GROUP, 2, 1)
        properties = {"_SYS_MSG_PRIORITY_": text, "RETRY_TOPIC": TOPIC}
        retry = Message(f"%RETRY%{GROUP}", b"m", properties, reconsume_times=1)
        await emulator.broker.sender.send(retry)
        [message] = await client.receive()
        assert not message.system_properties.HasField("priority")


async def test_a_priority_sent_over_http_is_received() -> None:
    async with running_grpc(**TYPED) as (emulator, client), Client(emulator.url) as control:
        await control.send(TOPIC, "m", priority=1)
        [message] = await client.receive()
        assert message.system_properties.priority == 1
