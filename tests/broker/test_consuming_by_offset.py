"""Consuming by offset: pulls, committed offsets, groups and their lag."""

import asyncio
from pathlib import Path

import pytest

from mocketmq.broker.consuming.pull_status import PullStatus
from mocketmq.broker.filters.filter import TagFilter
from mocketmq.errors import (
    GroupNotFoundError,
    InvalidArgumentError,
    QueueNotFoundError,
)
from tests.support.brokers import (
    GROUP,
    TOPIC,
    S,
    acknowledge,
    bodies,
    receive,
    running_broker,
    send,
)


async def test_pull_waits_and_moves_no_offset() -> None:
    async with running_broker() as broker:
        await broker.registry.topics.ensure(TOPIC, 4)
        waiting = asyncio.create_task(broker.pull.pull(GROUP, TOPIC, 0, 0, 10, wait_s=30))
        await send(broker, "elsewhere", topic="other")
        await send(broker, "0", queue=0)
        await send(broker, "1", queue=0)
        assert bodies((await waiting).messages)[:1] == ["0"]
        pulled = await broker.pull.pull(GROUP, TOPIC, 0, 1, 10)
        assert (pulled.status, bodies(pulled.messages)) == (PullStatus.FOUND, ["1"])
        assert (pulled.next_offset, pulled.min_offset, pulled.max_offset) == (2, 0, 2)
        assert broker.committed_offsets.of(GROUP, TOPIC, 0) is None


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (1, PullStatus.NO_MATCHED_MESSAGE, 2),  # a client continues there at once
        (2, PullStatus.FOUND, 3),
        (3, PullStatus.OFFSET_OVERFLOW_ONE, 3),
        (4, PullStatus.OFFSET_OVERFLOW_BADLY, 3),
    ],
)
async def test_a_pull_outside_the_queue_returns_the_next_offset(
    offset: int, status: PullStatus, next_offset: int
) -> None:
    async with running_broker() as broker:
        for _ in range(2):
            await send(broker, queue=0)
        await broker.reset.topic(TOPIC)
        await send(broker, queue=0)
        pulled = await broker.pull.pull(GROUP, TOPIC, 0, offset, 10)
        assert (pulled.status, pulled.next_offset) == (status, next_offset)
        empty = await broker.pull.pull(GROUP, TOPIC, 1, 0, 10)
        assert (empty.status, empty.next_offset) == (PullStatus.NO_MESSAGE_IN_QUEUE, 0)


async def test_a_pull_with_a_filter_skips_other_messages() -> None:
    async with running_broker() as broker:
        for tag in "ABA":
            await send(broker, tag, tag=tag, queue=0)
        pulled = await broker.pull.pull(GROUP, TOPIC, 0, 0, 10, tag_filter=TagFilter.parse("C"))
        assert (pulled.status, pulled.next_offset) == (PullStatus.NO_MATCHED_MESSAGE, 3)
        pulled = await broker.pull.pull(GROUP, TOPIC, 0, 0, 10, tag_filter=TagFilter.parse("A"))
        assert bodies(pulled.messages) == ["A", "A"]


async def test_both_ways_of_consuming_share_their_offsets(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for n in range(6):
            await send(broker, str(n), queue=0)
        taken = await receive(broker, 3)
        assert broker.committed_offsets.of(GROUP, TOPIC, 0) == 0
        await acknowledge(broker, [taken[0], taken[2]])
        assert broker.committed_offsets.of(GROUP, TOPIC, 0) == 1
        await broker.committed_offsets.commit(GROUP, TOPIC, 0, 5)
        assert broker.committed_offsets.of(GROUP, TOPIC, 0) == 5
        assert (await acknowledge(broker, [taken[1]])).failed
        assert bodies(await receive(broker)) == ["5"]
    async with running_broker(tmp_path) as broker:
        assert broker.committed_offsets.of(GROUP, TOPIC, 0) == 5
        await broker.mover.advance(3600 * S)
        assert bodies(await receive(broker)) == ["5"]


async def test_an_offset_committed_backwards_is_durable(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for n in range(3):
            await send(broker, str(n), queue=0)
        await acknowledge(broker, await receive(broker))
        await broker.committed_offsets.commit(GROUP, TOPIC, 0, 1)
        assert bodies(await receive(broker, invisible_us=10 * S)) == ["1", "2"]
    async with running_broker(tmp_path) as broker:
        assert broker.committed_offsets.of(GROUP, TOPIC, 0) == 1
        await broker.mover.advance(10 * S)
        assert bodies(await receive(broker)) == ["1", "2"]


@pytest.mark.parametrize("offset", [-1, 2])
async def test_only_offsets_of_the_queue_can_be_committed(offset: int) -> None:
    async with running_broker() as broker:
        await send(broker, queue=0)
        with pytest.raises(InvalidArgumentError, match="0 to 1"):
            await broker.committed_offsets.commit(GROUP, TOPIC, 0, offset)
        with pytest.raises(QueueNotFoundError, match="orders has 0 to 3"):
            await broker.committed_offsets.commit(GROUP, TOPIC, 4, 0)


async def test_groups_are_created_on_first_use_unless_disabled() -> None:
    async with running_broker(auto_create_groups=False) as broker:
        await send(broker)
        with pytest.raises(GroupNotFoundError):
            await receive(broker)
        await broker.registry.groups.put(GROUP, 16, 1)
        assert len(await receive(broker)) == 1


async def test_lag_counts_messages_that_a_group_has_not_settled() -> None:
    async with running_broker() as broker:
        for _ in range(5):
            await send(broker, queue=0)
        taken = await receive(broker, 3)
        [place] = [p for p in broker.consuming_groups.get(GROUP).queues.values() if p.queue.queue_id == 0]
        assert place.lag == 5
        await acknowledge(broker, taken[:2])
        assert place.lag == 3
