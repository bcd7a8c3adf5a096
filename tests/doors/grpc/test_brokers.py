"""Several brokers as gRPC clients see them: routes name the broker of each queue."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from mocketmq.broker.registry.groups import GroupConfig
from mocketmq.clock import US_PER_S
from mocketmq.errors import BrokerDownError
from mocketmq.message.broker_share import broker_names
from mocketmq.message.message import Message
from tests.doors.remoting.gates import until
from tests.support.brokers import GROUP, TOPIC
from tests.support.grpc import COMMIT, FIFO, TRANSACTION, running_grpc

A, B = "broker-a", "broker-b"
OK, TOPIC_NOT_FOUND, FAILED = 20_000, 40_402, 50_001


def queues(answer: object) -> Counter[str]:
    return Counter(queue.broker.name for queue in answer.message_queues)  # type: ignore[attr-defined]


def queue_of(name: str) -> dict[str, object]:
    return {"broker": {"name": name}, "id": -1}


async def test_routes_and_assignments_name_the_broker_of_each_queue() -> None:
    async with running_grpc(brokers=2) as (_, client):
        answer = await client.call("QueryRoute", topic={"name": TOPIC})
        assert queues(answer) == {A: 4, B: 4}
        assert {queue.id for queue in answer.message_queues} == {0, 1, 2, 3}
        answer = await client.call("QueryAssignment", topic={"name": TOPIC}, group={"name": "billing"})
        found = [(one.message_queue.broker.name, one.message_queue.id) for one in answer.assignments]
        assert found == [(A, -1), (B, -1)]


async def test_a_receive_gets_messages_of_the_broker_that_it_names() -> None:
    async with running_grpc(brokers=2) as (_, client):
        for number in range(40):
            await client.send(client.message(str(number)))
        found = {name: await client.receive(message_queue=queue_of(name)) for name in (A, B)}
        rest = [await client.receive(message_queue=queue_of(name)) for name in (A, B)]
        bodies = [one.body for some in (*found.values(), *rest) for one in some]
        assert sorted(map(int, bodies)) == list(range(40))
        assert all(found.values())  # forty random queues are not all at one broker
        assert (await client.ack(*found[B])).status.code == OK
        assert all(one.system_properties.queue_id < 4 for some in found.values() for one in some)


async def test_messages_of_a_group_stay_in_order_at_one_broker() -> None:
    async with running_grpc(brokers=2) as (_, client):
        for number in range(10):
            await client.send(client.message(str(number), message_group="one", message_type=FIFO))
        found = [
            [one.body.decode() for one in await client.receive(message_queue=queue_of(name))]
            for name in (A, B)
        ]
        assert sorted(found) == [[], list(map(str, range(10)))]


async def test_message_groups_are_shared_out_among_the_brokers_in_routes() -> None:
    groups = [f"group {number}" for number in range(20)]
    async with running_grpc(brokers=2) as (emulator, client):

        async def codes() -> set[int]:
            return {
                (await client.send(client.message("x", message_group=group, message_type=FIFO))).status.code
                for group in groups
            }

        lives = emulator.broker.broker_lives
        await lives.crash(B)
        assert await codes() == {OK, FAILED}
        await emulator.broker.mover.advance(120 * US_PER_S)
        assert await codes() == {OK}
        await lives.start(B)
        await lives.set_read_only(A, is_read_only=True)
        assert await codes() == {OK}
        await lives.shut_down(A)
        await lives.shut_down(B)
        assert await codes() == {FAILED}


async def test_a_broker_that_is_down_gets_nothing_and_gives_nothing() -> None:
    async with running_grpc(brokers=2) as (emulator, client):
        await client.call("QueryRoute", topic={"name": TOPIC})
        lives = emulator.broker.broker_lives
        await lives.crash(B)
        for number in range(20):
            assert (await client.send(client.message(str(number)))).status.code == OK
        assert len(await client.receive(message_queue=queue_of(A))) == 20
        status, _ = await client.try_receive("billing", TOPIC, message_queue=queue_of(B))
        assert (status.code, "broker-b is crashed" in status.message) == (FAILED, True)
        assert queues(await client.call("QueryRoute", topic={"name": TOPIC})) == {A: 4, B: 4}
        await emulator.broker.mover.advance(120 * US_PER_S)
        assert queues(await client.call("QueryRoute", topic={"name": TOPIC})) == {A: 4}
        await lives.shut_down(A)
        answer = await client.call("QueryRoute", topic={"name": TOPIC})
        assert answer.status.code == TOPIC_NOT_FOUND
        assert (await client.send(client.message("lost"))).status.code == FAILED


@pytest.mark.parametrize("brokers", [1, 2])
async def test_a_receive_that_waits_fails_when_its_broker_crashes(brokers: int) -> None:
    async with running_grpc(brokers=brokers) as (emulator, client):
        await client.call("QueryRoute", topic={"name": TOPIC})
        name = broker_names(brokers)[-1]
        receive = client.try_receive("billing", TOPIC, wait_s=60, message_queue=queue_of(name))
        waiting = asyncio.create_task(receive)
        await until(lambda: emulator.broker.polls.count == 1)
        await emulator.broker.broker_lives.crash(name)
        status, _ = await waiting
        assert (status.code, f"{name} is crashed" in status.message) == (FAILED, True)
        status, _ = await client.try_receive("billing", TOPIC, message_queue=queue_of(name))
        assert status.code == FAILED


async def test_a_group_in_order_goes_on_at_a_promoted_slave_with_what_is_in_flight() -> None:
    async with running_grpc(brokers=2, slaves=1, topic_queues=1) as (emulator, client):
        broker = emulator.broker
        await broker.registry.groups.put(GROUP, 16, 1, GroupConfig(consume_message_orderly=True))
        for body in ("first", "second", "third"):
            await broker.sender.send(Message(TOPIC, body.encode(), {}, queue_id=1))

        async def receive() -> list[Any]:
            return await client.receive(GROUP, batch_size=1, message_queue=queue_of(B))

        [first] = await receive()
        await broker.broker_lives.crash(B)
        assert (await client.ack(first, group=GROUP)).status.code == FAILED
        await broker.broker_lives.promote(B)
        assert await receive() == []
        assert (await client.ack(first, group=GROUP)).status.code == OK
        [second] = await receive()
        assert second.body == b"second"
        await broker.broker_lives.start(B)
        await broker.broker_lives.promote(B)
        await broker.mover.advance(30 * US_PER_S)
        again = await receive()
        assert [(one.body, one.system_properties.delivery_attempt) for one in again] == [(b"second", 2)]


async def test_messages_of_a_broker_that_is_down_cannot_be_settled() -> None:
    async with running_grpc(brokers=2) as (emulator, client):
        for number in range(40):
            await client.send(client.message(str(number)))
        [at_a, *_], [at_b, other, *_] = [
            await client.receive(message_queue=queue_of(name)) for name in (A, B)
        ]
        await emulator.broker.broker_lives.crash(B)
        answer = await client.ack(at_a, at_b)
        assert [entry.status.code for entry in answer.entries] == [OK, FAILED]
        assert (await client.change(other, 60)).status.code == FAILED
        await emulator.broker.broker_lives.start(B)
        assert (await client.ack(at_b, other)).status.code == OK


async def test_a_decision_does_not_reach_a_broker_that_is_down() -> None:
    async with running_grpc() as (emulator, client), client.telemetry() as telemetry:
        await telemetry.produce(TOPIC)
        [entry] = (await client.send(client.message("half", message_type=TRANSACTION))).entries
        broker = emulator.broker
        await broker.broker_lives.crash(A)

        async def commit(transaction_id: str) -> None:
            ended = await client.call(
                "EndTransaction",
                topic={"name": TOPIC},
                message_id=entry.message_id,
                transaction_id=transaction_id,
                resolution=COMMIT,
            )
            assert ended.status.code == OK

        await commit(entry.transaction_id)
        with pytest.raises(BrokerDownError, match=r"broker-a, which holds .* is crashed; start it again"):
            await broker.half_messages.decide(entry.transaction_id, commit=True)
        await broker.broker_lives.start(A)
        assert await client.receive() == []
        moving = asyncio.create_task(broker.mover.advance(60 * US_PER_S))
        command = (await telemetry.command()).recover_orphaned_transaction_command
        await commit(command.transaction_id)
        await moving
        assert [one.body for one in await client.receive()] == [b"half"]
