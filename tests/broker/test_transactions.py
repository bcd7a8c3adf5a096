"""Transactions: only their producers see half messages, and each is decided exactly once."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.consuming.receiver import InFlightMessage
from mocketmq.broker.transactions.popped_halves import LIFETIME_US, PreparedHalf
from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.errors import (
    EmulatorError,
    IllegalMessageError,
    InvalidArgumentError,
    NoPermissionError,
    ReceiptError,
    ReceiptSpentError,
    TopicNotFoundError,
    WrongQueueError,
)
from mocketmq.message.names import HALF_GROUP, half_topic
from mocketmq.message.properties import (
    DELAY,
    HALF_DUE_US,
    START_DELIVER_TIME,
    TIMER_DELAY_MS,
    decode_properties,
)
from tests.broker.half_messages import HALF, IMMUNITY_US, Decide, commit, pop, prepare, rollback
from tests.support.brokers import (
    DELAYS_US,
    GROUP,
    TOPIC,
    S,
    acknowledge,
    bodies,
    receive,
    rows,
    running_broker,
    send,
    visible,
)

# Decisions


async def test_half_message_is_invisible_until_its_commit() -> None:
    async with running_broker() as broker:
        half = await prepare(broker, queue_id=2, born_us=17, TAGS="A", KEYS="k", own="mine")
        assert (half.visible_us, broker.half_messages.prepared) == (
            broker.clock.now_us() + IMMUNITY_US,
            1,
        )
        assert (await receive(broker), await visible(broker), broker.pending.count) == ([], [], 0)
        receiver = asyncio.create_task(receive(broker, wait_s=30, tags="A"))
        assert (await commit(broker, [half])).done == [half.handle]
        [taken] = await receiver
        [message] = await visible(broker)
        assert (message, broker.registry.topics.queue(message.queue_key).queue_id) == (taken.message, 2)
        assert (message.body, message.born_us, message.unique_key, message.properties) == (
            b"half",
            17,
            half.stored.unique_key,
            half.stored.properties,
        )
        assert broker.half_messages.committed == 1
        assert (await acknowledge(broker, [taken])).done


async def test_a_rolled_back_message_is_never_visible() -> None:
    async with running_broker() as broker:
        half = await prepare(broker)
        assert (await rollback(broker, [half])).done == [half.handle]
        assert broker.half_messages.rolled_back == 1
        await broker.mover.advance(2 * LIFETIME_US)
        assert (await pop(broker), await visible(broker), broker.half_messages.abandoned) == (
            [],
            [],
            0,
        )


@pytest.mark.parametrize("first", [commit, rollback])
@pytest.mark.parametrize("second", [commit, rollback])
async def test_a_half_message_is_decided_once(first: Decide, second: Decide) -> None:
    async with running_broker() as broker:
        half = await prepare(broker)
        one, other = await asyncio.gather(first(broker, [half, half]), second(broker, [half]))
        again = await second(broker, [half])
        assert [one.done, other.done, again.done] in ([[half.handle], [], []], [[], [half.handle], []])
        for _, error in (*one.failed, *other.failed, *again.failed):
            assert isinstance(error, ReceiptSpentError)
        committed = broker.half_messages.committed
        assert len(await visible(broker)) == committed == 1 - broker.half_messages.rolled_back


@pytest.mark.parametrize("decide", [commit, rollback])
async def test_invalid_handles_fail_beside_valid_ones(decide: Decide) -> None:
    async with running_broker() as broker:
        await send(broker)
        [other_kind] = await receive(broker)
        half, elsewhere = await prepare(broker), await prepare(broker, topic="other")
        nonsense = half._replace(handle="nonsense")
        halves: list[PreparedHalf | InFlightMessage] = [nonsense, other_kind, elsewhere, half]
        settled = await decide(broker, halves)
        assert settled.done == [half.handle]
        assert [handle for handle, _ in settled.failed] == ["nonsense", other_kind.handle, elsewhere.handle]
        assert {type(error) for _, error in settled.failed} == {ReceiptError}
        assert await visible(broker, "other") == []


async def test_a_handle_without_half_message_is_invalid() -> None:
    async with running_broker() as broker:
        settled = await broker.popped_halves.commit("nowhere", ["1-0-2-3"])
        assert [handle for handle, _ in settled.failed] == ["1-0-2-3"]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"body": "x" * 5_000_000}, IllegalMessageError),
        ({"filler": "x" * 40_000}, IllegalMessageError),
        ({"topic": "a b"}, InvalidArgumentError),
        ({"topic": "unknown"}, TopicNotFoundError),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, NoPermissionError),
        ({"queue_id": 99}, WrongQueueError),
        ({START_DELIVER_TIME: "soon"}, IllegalMessageError),
        ({HALF_DUE_US: "1"}, IllegalMessageError),
    ],
)
async def test_a_faulty_half_message_is_refused_at_once(
    wrong: dict[str, Any], error: type[EmulatorError]
) -> None:
    async with running_broker(auto_create_topics=False) as broker:
        await broker.registry.topics.put_by_client(TOPIC, 4, 4, 6)
        with pytest.raises(error):
            await prepare(broker, **wrong)
        await broker.mover.advance(IMMUNITY_US)
        assert await pop(broker) == []


# Delays


@pytest.mark.parametrize("level", [2, 5])
async def test_a_delay_level_counts_from_the_commit(level: int) -> None:
    async with running_broker() as broker:
        half = await prepare(broker, queue_id=3, **{DELAY: str(level)})
        await broker.mover.advance(7 * S)
        assert (broker.pending.count, await visible(broker)) == (0, [])
        await commit(broker, [half])
        assert (broker.pending.count, await visible(broker)) == (1, [])
        moved = await broker.mover.move_to_next()
        assert moved.now_us - moved.from_us == DELAYS_US[level - 1]
        [message] = await visible(broker)
        assert broker.registry.topics.queue(message.queue_key).queue_id == 3


async def test_an_absolute_due_time_is_the_same_whenever_it_is_committed(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        started_us = broker.clock.now_us()
        half = await prepare(broker, queue_id=3, own="mine", **{TIMER_DELAY_MS: "15000"})
        await broker.mover.advance(7 * S)
        assert (broker.pending.count, await visible(broker)) == (0, [])
        assert (await commit(broker, [half])).done
        assert (broker.pending.count, await visible(broker)) == (1, [])
        assert (await broker.mover.move_to_next()).now_us == started_us + 15 * S
        [message] = await visible(broker)
        properties = decode_properties(message.properties)
        assert (properties["own"], HALF_DUE_US in properties) == ("mine", False)
        assert broker.registry.topics.queue(message.queue_key).queue_id == 3
    [row] = rows(tmp_path, "SELECT due_us, delivered_us FROM deliveries")
    assert row == {"due_us": started_us + 15 * S, "delivered_us": started_us + 15 * S}


async def test_commit_after_the_due_time_is_visible_at_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        half = await prepare(broker, **{TIMER_DELAY_MS: "5000"})
        await broker.mover.advance(7 * S + 123)
        await commit(broker, [half])
        assert bodies(await receive(broker, wait_s=30)) == ["half"]
    [row] = rows(tmp_path, "SELECT delivered_us - due_us AS late_us FROM deliveries")
    assert row == {"late_us": 123}  # due times are whole milliseconds


async def test_a_start_deliver_time_is_an_absolute_due_time() -> None:
    async with running_broker() as broker:
        due_ms = wall_us() // US_PER_MS + 3_600_000
        half = await prepare(broker, **{START_DELIVER_TIME: str(due_ms)})
        await broker.mover.advance(7 * S)
        await commit(broker, [half])
        [pending] = await broker.pending.list()
        assert pending.message.due_us is not None
        assert pending.message.unique_key == half.stored.unique_key
        assert abs(pending.message.due_us - half.stored.store_us - 3_600 * S) < 60 * S


# Forbidden requests


async def test_clients_cannot_use_topics_of_half_messages(tmp_path: Path) -> None:
    for _ in range(2):
        async with running_broker(tmp_path) as broker:
            for topic in (HALF, half_topic("nothing-there")):
                with pytest.raises(NoPermissionError):
                    await send(broker, topic=topic)
                with pytest.raises(NoPermissionError):
                    await prepare(broker, topic=topic)
                with pytest.raises(NoPermissionError):
                    await receive(broker, topic=topic)
                with pytest.raises(NoPermissionError):
                    await broker.pull.pull(GROUP, topic, 0, 0, 1)
                with pytest.raises(NoPermissionError):
                    await pop(broker, topic=topic)
                with pytest.raises(NoPermissionError):
                    await broker.registry.topics.put_by_client(topic, 4, 4, 6)
            await prepare(broker)
            assert broker.registry.topics.get(HALF).is_system
            assert bodies(await visible(broker, HALF))[0] == "half"


async def test_clients_cannot_use_the_group_of_half_messages() -> None:
    async with running_broker() as broker:
        await send(broker)
        half = await prepare(broker)
        for step in (
            receive(broker, group=HALF_GROUP),
            broker.pull.pull(HALF_GROUP, TOPIC, 0, 0, 1),
            broker.committed_offsets.commit(HALF_GROUP, HALF, 0, 1),
            broker.settler.acknowledge(HALF_GROUP, [half.handle]),
            broker.settler.give_back(HALF_GROUP, [half.handle]),
            broker.settler.extend(HALF_GROUP, [half.handle], 1),
            broker.receiver.release(HALF_GROUP, []),
        ):
            with pytest.raises(NoPermissionError):
                await step
        assert (await commit(broker, [half])).done


@pytest.mark.parametrize("topic", ["t" * 127, "%RETRY%" + "g" * 255])
async def test_topic_of_maximal_length_takes_half_messages(topic: str) -> None:
    async with running_broker() as broker:
        half = await prepare(broker, topic=topic)
        assert (await broker.popped_halves.commit(topic, [half.handle])).done
        assert bodies(await visible(broker, topic)) == ["half"]


# Resets


@pytest.mark.parametrize("is_all", [True, False])
async def test_a_reset_forgets_half_messages(tmp_path: Path, is_all: bool) -> None:
    async with running_broker(tmp_path) as broker:
        half = await prepare(broker)
        await (broker.reset.all() if is_all else broker.reset.topic(TOPIC))
        assert (await commit(broker, [half])).failed
        await prepare(broker, "after")
    async with running_broker(tmp_path) as broker:
        await broker.mover.advance(IMMUNITY_US)
        popped = await pop(broker)
        assert bodies(popped) == ["after"]
        await commit(broker, popped)
        assert bodies(await visible(broker)) == ["after"]
