"""Requests that wait for the writer while a snapshot is restored that lacks what they refer to."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.errors import GroupNotFoundError, StoreBusyError, TopicNotFoundError
from mocketmq.faults.rule import FaultRule
from mocketmq.message.message import Message
from mocketmq.store.batch import Batch
from tests.broker.test_checked_halves import prepare
from tests.support.brokers import (
    GROUP,
    TOPIC,
    S,
    acknowledge,
    bodies,
    receive,
    running_broker,
    send,
    visible,
)
from tests.support.held_writer import HeldWriter
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.interpreted


@pytest.fixture
def restoring(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Broker, Awaitable[object]], Awaitable[object]]:
    """Restore ``here`` while the work of a request waits. Returns the answer to the request, or its error."""

    async def restore(broker: Broker, request: Awaitable[object]) -> object:
        writer = HeldWriter(broker, monkeypatch)
        asking = asyncio.ensure_future(request)
        while not (writer.held or asking.done()):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0)
        writer.hold_no_more()
        await broker.snapshots.restore("here")
        writer.let_go()
        [answer] = await asyncio.gather(asking, return_exceptions=True)
        return answer

    return restore


Restoring = Callable[[Broker, Awaitable[object]], Awaitable[object]]


@pytest.mark.parametrize("level", [None, 1])
async def test_sends_to_a_queue_that_is_gone_are_refused(
    tmp_path: Path, restoring: Restoring, level: int | None
) -> None:
    async with running_broker(tmp_path) as broker:
        topics = broker.registry.topics
        await topics.put(TOPIC, 1, 1, 6)
        await send(broker, "first", queue=0)
        await broker.snapshots.save("here")
        await topics.put(TOPIC, 4, 4, 6)
        answer = await restoring(broker, send(broker, "gone", queue=3, level=level))
        assert isinstance(answer, TopicNotFoundError)
        assert str(answer) == f"topic[{TOPIC}] has no queue 3 any more"
        await send(broker, "delayed", queue=0, level=1)
        await broker.mover.advance(2 * S)
        assert bodies(await visible(broker)) == ["first", "delayed"]
    async with running_broker(tmp_path) as broker:
        assert bodies(await visible(broker)) == ["first", "delayed"]


async def test_a_send_to_a_queue_that_stays_is_stored(tmp_path: Path, restoring: Restoring) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker, "first", queue=0)
        await broker.snapshots.save("here")
        await restoring(broker, send(broker, "second", queue=0))
        assert bodies(await visible(broker)) == ["first", "second"]


async def test_a_message_sent_back_to_a_retry_topic_that_is_gone_is_refused(
    tmp_path: Path, restoring: Restoring
) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.registry.groups.put(GROUP, 16, 1)
        sent = await send(broker, "first", queue=0)
        await broker.snapshots.save("here")
        await broker.retries.give_back(GROUP, sent.stored.log_offset, 1)
        answer = await restoring(broker, broker.retries.give_back(GROUP, sent.stored.log_offset, 1))
        assert isinstance(answer, TopicNotFoundError)
        await send(broker, "delayed", queue=0, level=1)
        await broker.mover.advance(2 * S)
        assert bodies(await visible(broker)) == ["first", "delayed"]


@pytest.mark.parametrize("level", [1, -1])
async def test_a_received_message_is_not_given_back_to_a_topic_that_is_gone(
    tmp_path: Path, restoring: Restoring, level: int
) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker, "first", queue=0)
        [taken] = await receive(broker)
        await broker.snapshots.save("here")
        for topic in (f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"):
            await broker.registry.topics.ensure(topic, 1)
        answer = await restoring(broker, broker.settler.give_back(GROUP, [taken.handle], level))
        assert isinstance(answer, TopicNotFoundError)
        settled = await broker.settler.give_back(GROUP, [taken.handle], 1)
        assert settled.done == [taken.handle]
        await broker.mover.advance(2 * S)
        assert bodies(await receive(broker)) == ["first"]


@pytest.mark.parametrize("level", [{}, {"DELAY": "1"}], ids=["plain", "delayed"])
async def test_only_those_sends_of_a_run_are_refused_whose_queue_is_gone(
    tmp_path: Path, restoring: Restoring, level: dict[str, str]
) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.registry.topics.put(TOPIC, 1, 1, 6)
        await broker.snapshots.save("here")
        await broker.registry.topics.put(TOPIC, 4, 4, 6)
        intake = broker.sender.intake
        accepted = [
            await intake.accept(Message(TOPIC, body, {**level}, queue))
            for body, queue in ((b"first", 0), (b"gone", 3), (b"last", 0))
        ]
        results = await restoring(broker, broker.store.writer.commit(partial(intake.append_run, accepted)))
        assert isinstance(results, list)
        assert [isinstance(one, TopicNotFoundError) for one in results] == [False, True, False]
        await broker.mover.advance(S)
        assert bodies(await visible(broker)) == ["first", "last"]


async def test_a_rule_that_is_added_is_refused(tmp_path: Path, restoring: Restoring) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.faults.add_rule(FaultRule(do="hold", name="x", topic="a"))
        await broker.snapshots.save("here")
        await broker.faults.remove_rules("x")
        answer = await restoring(broker, broker.faults.add_rule(FaultRule(do="hold", name="x", topic="b")))
        assert isinstance(answer, StoreBusyError)
        assert [fault.rule.topic for fault in broker.faults] == ["a"]
        assert await broker.store.database.rows("SELECT name FROM faults") == [("x",)]


async def test_an_offset_in_a_topic_that_is_gone_is_not_stored(tmp_path: Path, restoring: Restoring) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.registry.groups.put(GROUP, 16, 1)
        await send(broker, "first")
        await broker.snapshots.save("here")
        for body in "abc":
            await send(broker, body, topic="later", queue=0)
        await broker.committed_offsets.report(GROUP, "later", 0, 1)
        await restoring(broker, broker.committed_offsets.report(GROUP, "later", 0, 2))
        assert await broker.store.database.rows("SELECT * FROM progress") == []
        assert all(queue.topic == TOPIC for queue in broker.consuming_groups.get(GROUP).queues)
    async with running_broker(tmp_path) as broker:
        assert bodies(await receive(broker)) == ["first"]


async def test_half_messages_are_refused_if_their_topic_is_gone(tmp_path: Path, restoring: Restoring) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker, "first")
        await broker.snapshots.save("here")
        await prepare(broker, "half")
        answer = await restoring(broker, prepare(broker, "another"))
        assert isinstance(answer, TopicNotFoundError)
    async with running_broker(tmp_path) as broker:
        assert broker.half_messages.open() == []
        assert bodies(await visible(broker)) == ["first"]


async def test_deleting_a_group_that_is_gone_is_refused(tmp_path: Path, restoring: Restoring) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker, "first")
        await broker.snapshots.save("here")
        await broker.registry.groups.put("late", 16, 1)
        answer = await restoring(broker, broker.consuming_groups.delete("late", clean_offsets=True))
        assert isinstance(answer, GroupNotFoundError)
        await send(broker, "second")
        assert sorted(bodies(await visible(broker))) == ["first", "second"]


async def test_a_receive_that_read_before_the_restore_reads_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.registry.topics.put(TOPIC, 1, 1, 6)
        await send(broker, "first")
        await acknowledge(broker, await receive(broker))
        await broker.snapshots.save("here")
        await send(broker, "undone")
        database, has_read, go = broker.store.database, asyncio.Event(), asyncio.Event()
        rows = database.rows

        async def slow_rows(*query: Any, **options: Any) -> list[Any]:
            found = await rows(*query, **options)
            if any(b"undone" in row for row in found):
                has_read.set()
                await go.wait()
            return found

        monkeypatch.setattr(database, "rows", slow_rows)
        receiving = asyncio.create_task(receive(broker))
        async with asyncio.timeout(PATIENCE_S):
            await has_read.wait()
        monkeypatch.setattr(database, "rows", rows)
        await broker.snapshots.restore("here")
        go.set()
        assert await receiving == []
        await send(broker, "next")
        assert bodies(await receive(broker)) == ["next"]


async def test_rows_of_a_damaged_store_do_not_keep_the_broker_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Earlier versions could leave such rows behind."""
    async with running_broker(tmp_path) as broker:
        await broker.registry.groups.put(GROUP, 16, 1)
        await send(broker, "first", queue=0)
        delayed = await send(broker, "delayed", queue=0, level=1)
        await send(broker, "delayed, too", queue=0, level=1)
        await receive(broker)
        log_offset = delayed.stored.log_offset

        def damage(batch: Batch) -> None:
            for sql in (
                f"INSERT INTO progress VALUES ('{GROUP}', 9999, 3)",
                "UPDATE receipts SET queue_key = 9998",
                f"UPDATE messages SET real_queue_key = 9997 WHERE log_offset = {log_offset}",
            ):
                batch.execute(sql)

        await broker.store.writer.commit(damage)
    async with running_broker(tmp_path) as broker:
        assert (await broker.mover.advance(2 * S)).fired == 1
        assert bodies(await visible(broker)) == ["first", "delayed, too"]
    assert [word in caplog.text for word in ("queue 9999", "queue 9998", "queue 9997")] == [True] * 3
