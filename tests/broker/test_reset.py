"""Reset: what it removes, what it keeps, and that a restart does not change the result."""

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from mocketmq.broker.registry import lite_topics
from mocketmq.broker.registry.clients import CLUSTERING, Channel, ConsumerData, Heartbeat, Subscription
from mocketmq.broker.registry.request_modes import POP, RequestMode
from mocketmq.broker.registry.topic_config import TopicConfig
from mocketmq.broker.removal.reset import DELETE_MESSAGE
from mocketmq.errors import MessageNotFoundError, NoPermissionError, StoreUnavailableError, TopicNotFoundError
from mocketmq.message.message import Message
from mocketmq.message.names import SCHEDULE_TOPIC
from mocketmq.message.properties import LITE_TOPIC
from mocketmq.settings import GroupDeclaration, TopicDeclaration
from mocketmq.store.receipt_rows import DELETE_RECEIPTS
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
from tests.support.patience import HANGING_S
from tests.support.waiting import Waiting


async def test_reset_deletes_messages_and_keeps_topics_groups_and_clock(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        kept = (await send(broker, "visible", queue=0)).stored
        await send(broker, "taken", queue=0)
        [taken, _] = await receive(broker)
        await send(broker, "pending", level=18)
        await send(broker, "delivered", level=1)
        moved_us = (await broker.mover.advance(1 * S)).now_us
        await broker.reset.all()
        for _ in range(2):
            assert await visible(broker) == []
            assert await receive(broker) == []
            assert (broker.pending.count, await broker.pending.list()) == (0, [])
            assert broker.clock.now_us() == moved_us
            with pytest.raises(MessageNotFoundError):
                await broker.histories.records(kept.unique_key)
        assert (await acknowledge(broker, [taken])).failed
    for table in ("messages", "deliveries", "interventions", "receipts", "message_keys"):
        assert rows(tmp_path, f"SELECT * FROM {table}") == []
    async with running_broker(tmp_path) as broker:
        assert broker.registry.groups.get(GROUP)
        assert broker.clock.now_us() == moved_us
        assert (await broker.mover.advance(7200 * S)).fired == 0
        assert await receive(broker) == []


async def test_offsets_continue_after_a_reset(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        before = (await send(broker, queue=0)).stored
        await send(broker, level=1)
        await receive(broker)
        await broker.reset.all()
    async with running_broker(tmp_path) as broker:
        now = (await send(broker, "now", queue=0)).stored
        assert now.queue_offset == before.queue_offset + 1
        assert now.log_offset == before.log_offset + 2
        await send(broker, "later", level=1, queue=0)
        await broker.mover.advance(1 * S)
        taken = await receive(broker)
        assert bodies(taken) == ["now", "later"]
        await give_back(broker, taken)
        await broker.mover.move_to_next()
        assert sorted(bodies(await receive(broker))) == ["later", "now"]


async def test_a_reset_writes_nothing_for_topics_deleted_before(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        deleted = (await send(broker, "before", topic="deleted", queue=0)).stored
        await send(broker, "later", topic="deleted", queue=0, level=1)
        await broker.reset.delete_topic("deleted")
        at_deletion = rows(tmp_path, "SELECT * FROM queues WHERE topic = 'deleted'")
        await send(broker, "kept", queue=0)
        await broker.reset.all()
        assert rows(tmp_path, "SELECT * FROM queues WHERE topic = 'deleted'") == at_deletion
        assert broker.registry.topics.queue_of(TOPIC, 0).min_offset == 1
        again = (await send(broker, "again", topic="deleted", queue=0)).stored
        assert again.queue_offset == deleted.queue_offset + 1
    async with running_broker(tmp_path) as broker:
        assert bodies(await receive(broker, topic="deleted")) == ["again"]


async def test_resetting_one_topic_leaves_the_others(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for topic in (TOPIC, "other"):
            await send(broker, "visible", topic=topic)
            await send(broker, "taken", topic=topic)
            await receive(broker, 1, topic=topic)
            for level in (1, 18):
                await send(broker, f"pending {level}", topic=topic, level=level)
        await broker.reset.topic(TOPIC)
        assert await visible(broker) == []
        assert await broker.pending.list(topic=TOPIC) == []
        assert broker.pending.count == 2
    async with running_broker(tmp_path) as broker:
        assert broker.pending.count == 2
        assert (await broker.mover.advance(7200 * S)).fired == 2
        assert await receive(broker) == []
        assert len(await receive(broker, topic="other")) == 4


async def test_a_topic_is_reset_at_the_head_of_a_level_and_behind_it() -> None:
    async with running_broker() as broker:
        for topic in ("other", TOPIC, "other", TOPIC):
            await send(broker, topic, level=1, topic=topic)
        await broker.mover.advance(500_000)
        await broker.reset.topic("other")
        assert broker.pending.count == 2
        await send(broker, "new", level=1, topic="other")
        assert (await broker.mover.advance(1 * S)).fired == 3
        assert bodies(await visible(broker)) == [TOPIC, TOPIC]
        assert bodies(await visible(broker, "other")) == ["new"]
        assert broker.pending.count == 0


async def test_unknown_topic_cannot_be_reset() -> None:
    async with running_broker() as broker:
        with pytest.raises(TopicNotFoundError):
            await broker.reset.topic(TOPIC)


async def test_a_reset_ends_a_long_poll_and_the_next_one_gets_newer_messages() -> None:
    async with running_broker() as broker:
        waiting = Waiting(broker.polls)
        receiver = asyncio.create_task(receive(broker, wait_s=HANGING_S))
        await waiting.begun()
        await broker.reset.all()
        assert await receiver == []
        receiver = asyncio.create_task(receive(broker, wait_s=HANGING_S))
        await send(broker, "after")
        assert bodies(await receiver) == ["after"]


async def test_reset_of_a_topic_includes_its_retries_and_dead_letters() -> None:
    async with running_broker() as broker:
        for topic in (TOPIC, "other"):
            for fate in (0, 0, -1):
                await send(broker, topic=topic)
                await give_back(broker, await receive(broker, topic=topic), fate)
            await broker.mover.advance(10 * S)
            [_, retried] = await receive(broker, topic=topic)
            await give_back(broker, [retried])
        await broker.reset.topic(TOPIC)
        await broker.mover.advance(3600 * S)
        assert await receive(broker) == []
        assert len(await receive(broker, topic="other")) == 2
        assert len(await visible(broker, f"%DLQ%{GROUP}")) == 1


async def test_forgetting_single_messages_reads_no_whole_table(tmp_path: Path) -> None:
    async with running_broker(tmp_path):
        for statement in (DELETE_RECEIPTS, DELETE_MESSAGE):
            plan = rows(tmp_path, f"EXPLAIN QUERY PLAN {statement.replace('?', '1')}")
            assert not [step for step in plan if step["detail"].startswith(("SCAN takes", "SCAN messages"))]


async def test_forgetting_reset_keeps_declared_and_consumed_topics(tmp_path: Path) -> None:
    declared: dict[str, Any] = {
        "topics": (TopicDeclaration(name="declared", read_queues=2, write_queues=2),),
        "groups": (GroupDeclaration(name="known", max_retries=3),),
    }
    async with running_broker(tmp_path, **declared) as broker:
        registry = broker.registry
        usual = {topic.name for topic in registry.topics}, {group.name for group in registry.groups}
        await registry.topics.put("declared", 8, 8, 6)
        await registry.groups.put("known", 9, 1)
        for topic in ("mine", "consumed"):
            await send(broker, topic=topic, level=1)
            await receive(broker, topic=topic)
            await receive(broker, topic=topic, group="live")
        await registry.topics.ensure("%RETRY%live", 1)
        await registry.request_modes.put(RequestMode("mine", GROUP, POP))
        await registry.request_modes.put(RequestMode("consumed", "live", POP))
        consumer = ConsumerData("live", "CONSUME_PASSIVELY", CLUSTERING, "", [Subscription("consumed")])
        registry.clients.heartbeat(Mock(Channel), Heartbeat("a@1", "JAVA", 0, consumers=[consumer]))
        await broker.reset.all()
        await broker.full_reset.forget_undeclared()
        topics, groups = usual
        assert {topic.name for topic in registry.topics} == topics | {"consumed", "%RETRY%live"}
        assert {group.name for group in registry.groups} == groups | {"live"}
        assert registry.topics.get("declared").read_queues == 2
        assert registry.groups.get("known").max_retries == 3
        assert [mode.group for mode in registry.request_modes] == ["live"]
    async with running_broker(tmp_path, **declared) as broker:
        assert {topic.name for topic in broker.registry.topics} == topics | {"consumed", "%RETRY%live"}
        await send(broker, "new", topic="mine")
        assert bodies(await receive(broker, topic="mine")) == ["new"]


async def test_a_system_topic_cannot_be_reset() -> None:
    async with running_broker() as broker:
        await send(broker, "delayed", queue=0, level=1)
        with pytest.raises(NoPermissionError, match="conflict with system topic"):
            await broker.reset.topic(SCHEDULE_TOPIC)
        await broker.mover.advance(2 * S)
        assert bodies(await visible(broker)) == ["delayed"]


async def test_a_failed_reset_of_many_lite_topics_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker:
        lites = broker.registry.topics.lites
        await broker.registry.topics.put("p", 1, 1, 6, TopicConfig(attributes={"message.type": "LITE"}))
        count = lite_topics._RETIRED + 10
        for first in range(0, count, 100):
            numbers = range(first, min(first + 100, count))
            await broker.sender.send_batch([Message("p", b"x", {LITE_TOPIC: f"l{n}"}) for n in numbers])
        before = [queue.name for queue in lites.of("p")]
        assert len(before) == count

        async def refuse(*_: object) -> None:
            raise StoreUnavailableError("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(broker.store.database, "transact", refuse)
            with pytest.raises(StoreUnavailableError):
                await broker.reset.all()
        assert [queue.name for queue in lites.of("p")] == before
        assert [broker.registry.topics.queue(queue.key) for queue in lites] == [*lites]
        await broker.reset.all()
        assert not lites.count
