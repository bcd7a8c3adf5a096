"""Reset: what is gone afterwards, what stays, and that it stays so after a restart."""

import asyncio
from pathlib import Path

import pytest

from mocketmq.broker.removal.reset import DELETE_MESSAGE
from mocketmq.errors import MessageNotFoundError, TopicNotFoundError
from mocketmq.store.take_rows import DELETE_TAKES
from tests.support.brokers import (
    GROUP,
    TOPIC,
    S,
    acknowledge,
    bodies,
    give_back,
    receive,
    rows,
    running_broker,
    send,
    visible,
)


async def test_a_reset_forgets_every_message_and_keeps_topics_groups_and_the_clock(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        kept = (await send(broker, "visible", queue=0)).stored
        await send(broker, "taken", queue=0)
        [taken, _] = await receive(broker)
        await send(broker, "pending", level=18)
        await send(broker, "delivered", level=1)
        moved_us = (await broker.mover.advance(1 * S)).now_us
        await broker.removal.reset.all()
        for _ in range(2):
            assert await visible(broker) == []
            assert await receive(broker) == []
            assert (broker.inspection.pending.count, await broker.inspection.pending.list()) == (0, [])
            assert broker.clock.now_us() == moved_us
            with pytest.raises(MessageNotFoundError):
                await broker.inspection.histories.records(kept.unique_key)
        assert (await acknowledge(broker, [taken])).failed
    for table in ("messages", "deliveries", "interventions", "takes", "message_keys"):
        assert rows(tmp_path, f"SELECT * FROM {table}") == []
    async with running_broker(tmp_path) as broker:
        assert broker.registry.groups.get(GROUP)
        assert broker.clock.now_us() == moved_us
        assert (await broker.mover.advance(7200 * S)).fired == 0
        assert await receive(broker) == []


async def test_after_a_reset_offsets_go_on_and_everything_works(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        before = (await send(broker, queue=0)).stored
        await send(broker, level=1)
        await receive(broker)
        await broker.removal.reset.all()
    async with running_broker(tmp_path) as broker:
        now = (await send(broker, "now", queue=0)).stored
        assert now.queue_offset == before.queue_offset + 1
        assert now.commit_offset == before.commit_offset + 2
        await send(broker, "later", level=1, queue=0)
        await broker.mover.advance(1 * S)
        taken = await receive(broker)
        assert bodies(taken) == ["now", "later"]
        await give_back(broker, taken)
        await broker.mover.move_to_next()
        assert sorted(bodies(await receive(broker))) == ["later", "now"]


async def test_resetting_one_topic_leaves_the_others(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for topic in (TOPIC, "other"):
            await send(broker, "visible", topic=topic)
            await send(broker, "taken", topic=topic)
            await receive(broker, 1, topic=topic)
            for level in (1, 18):
                await send(broker, f"pending {level}", topic=topic, level=level)
        await broker.removal.reset.topic(TOPIC)
        assert await visible(broker) == []
        assert await broker.inspection.pending.list(topic=TOPIC) == []
        assert broker.inspection.pending.count == 2
    async with running_broker(tmp_path) as broker:
        assert broker.inspection.pending.count == 2
        assert (await broker.mover.advance(7200 * S)).fired == 2
        assert await receive(broker) == []
        assert len(await receive(broker, topic="other")) == 4


async def test_a_topic_is_reset_at_the_head_of_a_level_and_behind_it() -> None:
    async with running_broker() as broker:
        for topic in ("other", TOPIC, "other", TOPIC):
            await send(broker, topic, level=1, topic=topic)
        await broker.mover.advance(500_000)
        await broker.removal.reset.topic("other")
        assert broker.inspection.pending.count == 2
        await send(broker, "new", level=1, topic="other")
        assert (await broker.mover.advance(1 * S)).fired == 3
        assert bodies(await visible(broker)) == [TOPIC, TOPIC]
        assert bodies(await visible(broker, "other")) == ["new"]
        assert broker.inspection.pending.count == 0


async def test_a_topic_that_does_not_exist_cannot_be_reset() -> None:
    async with running_broker() as broker:
        with pytest.raises(TopicNotFoundError):
            await broker.removal.reset.topic(TOPIC)


async def test_a_waiting_receiver_survives_a_reset() -> None:
    async with running_broker() as broker:
        receiver = asyncio.create_task(receive(broker, wait_s=30))
        await send(broker, topic="other")
        await broker.removal.reset.all()
        await send(broker, "after")
        assert bodies(await receiver) == ["after"]


async def test_a_reset_of_a_topic_takes_its_retries_and_dead_letters_along() -> None:
    async with running_broker() as broker:
        for topic in (TOPIC, "other"):
            for fate in (0, 0, -1):
                await send(broker, topic=topic)
                await give_back(broker, await receive(broker, topic=topic), fate)
            await broker.mover.advance(10 * S)
            [_, retried] = await receive(broker, topic=topic)
            await give_back(broker, [retried])
        await broker.removal.reset.topic(TOPIC)
        await broker.mover.advance(3600 * S)
        assert await receive(broker) == []
        assert len(await receive(broker, topic="other")) == 2
        assert len(await visible(broker, f"%DLQ%{GROUP}")) == 1


async def test_forgetting_single_messages_reads_no_whole_table(tmp_path: Path) -> None:
    async with running_broker(tmp_path):
        for statement in (DELETE_TAKES, DELETE_MESSAGE):
            plan = rows(tmp_path, f"EXPLAIN QUERY PLAN {statement.replace('?', '1')}")
            assert not [step for step in plan if step["detail"].startswith(("SCAN takes", "SCAN messages"))]
