"""Retries by level, dead letters, and what survives a restart."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.receiver import InFlightMessage
from mocketmq.message.message_id import offset_message_id
from mocketmq.message.properties import DELAY, ORIGIN_MESSAGE_ID, REAL_TOPIC, RETRY_TOPIC, decode_properties
from tests.support.brokers import (
    DELAYS_US,
    GROUP,
    TOPIC,
    S,
    acknowledge,
    bodies,
    give_back,
    receive,
    running_broker,
    send,
    visible,
)

DLQ = f"%DLQ%{GROUP}"
RETRY = f"%RETRY%{GROUP}"


# Retries and dead letters


async def take_one(broker: Broker, **how: Any) -> InFlightMessage:
    [taken] = await receive(broker, **how)
    return taken


async def test_sixteen_retries_precede_the_dead_letter() -> None:
    async with running_broker() as broker:
        original = (await send(broker, tag="A", KEYS="k")).stored
        for times in range(16):
            taken = await take_one(broker)
            assert (taken.message.reconsume_times, taken.topic) == (times, TOPIC)
            assert (await give_back(broker, [taken])).done == [taken.handle]
            move = await broker.mover.move_to_next()
            assert (move.fired, move.now_us - move.from_us) == (1, DELAYS_US[2 + times])
        last = await take_one(broker)
        properties = decode_properties(last.message.properties)
        assert {
            DELAY: "18",
            REAL_TOPIC: RETRY,
            RETRY_TOPIC: TOPIC,
            ORIGIN_MESSAGE_ID: offset_message_id(original.store_host, original.log_offset),
            "TAGS": "A",
            "KEYS": "k",
            "WAIT": "false",
            "UNIQ_KEY": original.unique_key,
        }.items() <= properties.items()
        assert (last.message.born_us, last.message.body) == (original.born_us, original.body)
        await give_back(broker, [last])
        assert broker.pending.count == 0
        [dead] = await visible(broker, DLQ)
        assert (dead.reconsume_times, decode_properties(dead.properties)[DELAY]) == (17, "0")
        assert (dead.body, dead.born_us) == (original.body, original.born_us)
        assert broker.registry.topics.get(DLQ).perm == 6
        assert (await take_one(broker, topic=DLQ, group="mourners")).message == dead


async def test_expired_receipts_end_in_a_dead_letter() -> None:
    async with running_broker() as broker:
        await send(broker)
        for times in range(1, 18):
            taken = await take_one(broker, invisible_us=10 * S)
            assert taken.times == times
            await broker.mover.advance(10 * S)
        assert await receive(broker) == []
        assert bodies(await visible(broker, DLQ)) == ["hello"]


async def test_given_back_and_expired_takes_count_together() -> None:
    async with running_broker() as broker:
        await broker.registry.groups.put(GROUP, 2, 1)
        await send(broker)
        await give_back(broker, await receive(broker), 1)
        await broker.mover.advance(1 * S)
        for _ in range(2):
            assert len(await receive(broker, invisible_us=10 * S)) == 1
            await broker.mover.advance(10 * S)
        assert bodies(await visible(broker, DLQ)) == ["hello"]


@pytest.mark.parametrize(("level", "delay_us"), [(1, DELAYS_US[0]), (5, DELAYS_US[4]), (99, DELAYS_US[17])])
async def test_a_consumer_may_choose_the_level_of_the_retry(level: int, delay_us: int) -> None:
    async with running_broker() as broker:
        await send(broker)
        await give_back(broker, await receive(broker), level)
        move = await broker.mover.move_to_next()
        assert move.now_us - move.from_us == delay_us


async def test_consumer_may_send_a_message_to_the_dead_letters() -> None:
    async with running_broker() as broker:
        await send(broker)
        await give_back(broker, await receive(broker), -1)
        assert (broker.pending.count, bodies(await visible(broker, DLQ))) == (0, ["hello"])


async def test_retry_is_private_to_its_group() -> None:
    async with running_broker() as broker:
        await send(broker)
        await acknowledge(broker, await receive(broker, group="shipping"), "shipping")
        await give_back(broker, await receive(broker))
        await broker.mover.move_to_next()
        assert await receive(broker, group="shipping") == []
        assert len(await receive(broker)) == 1


async def test_retry_ignores_the_filter() -> None:
    async with running_broker() as broker:
        await send(broker, tag="A")
        await give_back(broker, await receive(broker, tags="A"))
        await broker.mover.move_to_next()
        assert len(await receive(broker, tags="A")) == 1


async def test_the_retry_of_another_topic_is_left_for_its_own_receiver(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker)
        await give_back(broker, await receive(broker))
        receiver = asyncio.create_task(receive(broker, wait_s=30))
        await broker.mover.move_to_next()
        assert [one.times for one in await receiver] == [1]
        await give_back(broker, await receiver)
        await broker.mover.move_to_next()
        assert await receive(broker, topic="other") == []
    async with running_broker(tmp_path) as broker:
        assert await receive(broker, topic="other") == []
        assert [(one.topic, one.times) for one in await receive(broker, wait_s=30)] == [(TOPIC, 1)]


async def test_retry_of_another_topic_wakes_its_own_receiver() -> None:
    async with running_broker() as broker:
        await send(broker)
        await give_back(broker, await receive(broker))
        await broker.mover.move_to_next()
        receiver = asyncio.create_task(receive(broker, wait_s=30))
        assert await receive(broker, topic="other") == []
        assert len(await receiver) == 1


# Restarts


async def test_receipts_acknowledgements_and_progress_survive_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for n in range(4):
            await send(broker, str(n), queue=n % 2)
        acked, kept, late = await receive(broker, 3, invisible_us=30 * S)
        await acknowledge(broker, [acked])
        await broker.settler.extend(GROUP, [late.handle], 5 * S)
    async with running_broker(tmp_path) as broker:
        assert bodies(await receive(broker)) == ["3"]
        assert (await acknowledge(broker, [acked])).failed
        await broker.mover.advance(5 * S)
        assert [(one.message.body, one.times) for one in await receive(broker)] == [(b"2", 2)]
        assert (await acknowledge(broker, [kept])).done == [kept.handle]
    async with running_broker(tmp_path) as broker:
        await broker.mover.advance(3600 * S)
        assert sorted(bodies(await receive(broker))) == ["2", "3"]


async def test_attempts_are_counted_across_restarts(tmp_path: Path) -> None:
    for times in range(1, 4):
        async with running_broker(tmp_path) as broker:
            if times == 1:
                await broker.registry.groups.put(GROUP, 2, 1)
                await send(broker)
            assert [one.times for one in await receive(broker, invisible_us=1, wait_s=30)] == [times]
            await broker.mover.advance(1)
    async with running_broker(tmp_path) as broker:
        assert bodies(await visible(broker, DLQ)) == ["hello"]


# Regressions found by an audit


async def test_retry_topic_can_be_received_directly() -> None:
    async with running_broker() as broker:
        await send(broker)
        await give_back(broker, await receive(broker))
        await broker.mover.advance(10 * S)
        assert len(await receive(broker, topic=RETRY, invisible_us=5 * S)) == 1
        await broker.mover.advance(5 * S)
        assert len(await receive(broker, topic=RETRY)) == 1


async def test_message_with_maximal_properties_is_retried_and_dies() -> None:
    async with running_broker() as broker:
        await broker.registry.groups.put(GROUP, 1, 1)
        await send(broker, filler="x" * 32_600)
        assert (await give_back(broker, await receive(broker))).failed == []
        await broker.mover.advance(10 * S)
        assert len(await receive(broker, invisible_us=1 * S)) == 1
        await send(broker, "delayed", level=1)
        assert (await broker.mover.advance(1 * S)).fired == 1
        assert len(await visible(broker, DLQ)) == 1


async def test_a_group_can_be_given_more_retry_queues() -> None:
    async with running_broker() as broker:
        await send(broker)
        await give_back(broker, await receive(broker))
        await broker.registry.groups.put(GROUP, 16, 5)
        await send(broker)
        await give_back(broker, await receive(broker))
        assert broker.registry.topics.get(RETRY).read_queues == 5
