"""Ordered receives: a queue continues only when all messages received from it are settled."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.receiver import InFlightMessage
from mocketmq.errors import StoreUnavailableError
from mocketmq.store.writer import Work
from tests.support.brokers import (
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
from tests.support.patience import HANGING_S, PATIENCE_S

RETRY = f"%RETRY%{GROUP}"


async def receive_in_order(broker: Broker, limit: int = 100, **how: Any) -> list[InFlightMessage]:
    return await receive(broker, limit, invisible_us=10 * S, ordered=True, **how)


async def fill(broker: Broker, *contents: str, queue: int = 0, **how: Any) -> None:
    for body in contents:
        await send(broker, body, queue=queue, **how)


class Looks:
    """Records what receivers find each time they look."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: list[list[str]] = []
        self.begun = asyncio.Event()
        self._take = broker.receiver._receive_unless_cancelled
        monkeypatch.setattr(broker.receiver, "_receive_unless_cancelled", self._look)

    async def _look(self, *how: Any) -> list[InFlightMessage]:
        taken = await self._take(*how)
        self.found.append(bodies(taken))
        self.begun.set()
        return taken


async def test_next_batch_waits_until_the_previous_one_is_settled() -> None:
    async with running_broker() as broker:
        await fill(broker, "0", "1", "2", "3")
        batch = await receive_in_order(broker, 2)
        assert bodies(batch) == ["0", "1"]
        assert await receive_in_order(broker) == []
        await acknowledge(broker, batch[:1])
        assert await receive_in_order(broker) == []
        await acknowledge(broker, batch[1:])
        assert bodies(await receive_in_order(broker)) == ["2", "3"]


async def test_unsettled_messages_are_redelivered_in_order_and_alone() -> None:
    async with running_broker() as broker:
        await fill(broker, "0", "1", "2")
        batch = await receive_in_order(broker)
        await acknowledge(broker, [batch[1]])
        await fill(broker, "new")
        await broker.mover.advance(10 * S - 1)
        assert await receive_in_order(broker) == []
        await broker.mover.advance(1)
        again = await receive_in_order(broker)
        assert [(one.message.body, one.times) for one in again] == [(b"0", 2), (b"2", 2)]
        assert await receive_in_order(broker) == []
        await acknowledge(broker, again)
        assert bodies(await receive_in_order(broker)) == ["new"]


async def test_redelivered_messages_may_be_received_in_parts() -> None:
    async with running_broker() as broker:
        await fill(broker, "0", "1", "2", "new")
        await receive_in_order(broker, 3)
        await broker.mover.advance(10 * S)
        found = []
        while part := await receive_in_order(broker, 2):
            assert await receive_in_order(broker, 2) == []
            found.append(bodies(part))
            await acknowledge(broker, part)
        assert found == [["0", "1"], ["2"], ["new"]]


async def test_expired_part_of_a_batch_waits_for_the_rest() -> None:
    async with running_broker() as broker:
        await fill(broker, "0", "1")
        _, second = await receive_in_order(broker)
        await broker.settler.extend(GROUP, [second.handle], 20 * S)
        await broker.mover.advance(10 * S)
        assert await receive_in_order(broker) == []
        await broker.mover.advance(10 * S)
        assert bodies(await receive_in_order(broker)) == ["0", "1"]


async def test_queues_are_independent_and_may_be_mixed() -> None:
    async with running_broker() as broker:
        await fill(broker, "a0", "a1")
        assert bodies(await receive_in_order(broker, 1)) == ["a0"]
        await fill(broker, "b0", queue=1)
        await fill(broker, "c0", queue=2)
        await fill(broker, "b1", queue=1)
        assert bodies(await receive_in_order(broker)) == ["b0", "c0", "b1"]
        await fill(broker, "d0", queue=3)
        await broker.mover.advance(10 * S)
        assert bodies(await receive_in_order(broker)) == ["a0", "b0", "c0", "b1", "d0"]


async def test_groups_are_independent() -> None:
    async with running_broker() as broker:
        await fill(broker, "0", "1")
        assert bodies(await receive_in_order(broker, 1)) == ["0"]
        assert bodies(await receive_in_order(broker, 1, group="shipping")) == ["0"]


async def acknowledged(broker: Broker, batch: list[InFlightMessage]) -> None:
    await acknowledge(broker, batch)


async def given_back(broker: Broker, batch: list[InFlightMessage]) -> None:
    await give_back(broker, batch)


async def given_up(broker: Broker, batch: list[InFlightMessage]) -> None:
    await give_back(broker, batch, -1)


async def run_out_for_good(broker: Broker, _: list[InFlightMessage]) -> None:
    await broker.registry.groups.put(GROUP, 0, 1)
    await broker.mover.advance(10 * S)


async def committed_past(broker: Broker, batch: list[InFlightMessage]) -> None:
    await broker.committed_offsets.commit(GROUP, TOPIC, 0, batch[-1].message.queue_offset + 1)


@pytest.mark.parametrize("settle", [acknowledged, given_back, given_up, run_out_for_good, committed_past])
async def test_a_waiting_receiver_gets_the_next_batch_once_the_last_one_is_settled(
    settle: Callable[[Broker, list[InFlightMessage]], Awaitable[None]],
) -> None:
    async with running_broker() as broker:
        await fill(broker, "0", "1", "next")
        batch = await receive_in_order(broker, 2)
        receiver = asyncio.create_task(receive_in_order(broker, wait_s=30))
        await settle(broker, batch)
        async with asyncio.timeout(PATIENCE_S):
            assert bodies(await receiver) == ["next"]


async def test_a_waiting_receiver_gets_an_unsettled_message() -> None:
    async with running_broker() as broker:
        await fill(broker, "0", "1")
        await receive_in_order(broker, 1)
        receiver = asyncio.create_task(receive_in_order(broker, wait_s=30))
        await broker.mover.advance(10 * S)
        async with asyncio.timeout(PATIENCE_S):
            assert bodies(await receiver) == ["0"]


@pytest.mark.interpreted
async def test_only_ordered_receivers_are_woken_when_others_settle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        await fill(broker, "0")
        batch = await receive(broker)
        looks = Looks(broker, monkeypatch)
        receiver = asyncio.create_task(receive(broker, wait_s=30))
        await looks.begun.wait()
        await acknowledge(broker, batch)
        await fill(broker, "1")
        assert bodies(await receiver) == ["1"]
        assert looks.found == [[], ["1"]]


# Filters


async def test_a_filter_skips_other_messages() -> None:
    async with running_broker() as broker:
        for body, tag in ("0", "A"), ("1", "B"), ("2", "A"):
            await send(broker, body, queue=0, tag=tag)
        batch = await receive_in_order(broker, 1, tags="A")
        assert bodies(batch) == ["0"]
        await acknowledge(broker, batch)
        assert bodies(await receive_in_order(broker, tags="A")) == ["2"]


async def test_a_filtered_redelivery_blocks_the_messages_behind_it() -> None:
    async with running_broker() as broker:
        for body, tag in ("0", "A"), ("1", "B"), ("2", "B"):
            await send(broker, body, queue=0, tag=tag)
        await send(broker, "elsewhere", queue=1, tag="B")
        await receive_in_order(broker, 2)
        await broker.mover.advance(10 * S)
        assert bodies(await receive_in_order(broker, tags="B")) == ["elsewhere"]
        assert bodies(await receive_in_order(broker, tags="A || B")) == ["0", "1"]


# Retries


async def test_retries_are_received_in_order() -> None:
    async with running_broker() as broker:
        await fill(broker, "0", "1", "2")
        await give_back(broker, await receive_in_order(broker, 2), 1)
        await broker.mover.advance(1 * S)
        first = await receive_in_order(broker, 1)
        assert (bodies(first), first[0].message.reconsume_times) == (["2"], 0)
        retry = await receive_in_order(broker, 1)
        assert bodies(retry) == ["0"]
        assert await receive_in_order(broker) == []
        await acknowledge(broker, retry)
        assert bodies(await receive_in_order(broker)) == ["1"]


async def test_retries_of_topics_are_independent() -> None:
    async with running_broker() as broker:
        for topic in (TOPIC, "other", TOPIC):
            await fill(broker, topic, topic=topic)
            await give_back(broker, await receive_in_order(broker, topic=topic), 1)
        await broker.mover.advance(1 * S)
        batch = await receive_in_order(broker)
        assert bodies(batch) == [TOPIC, TOPIC]
        assert bodies(await receive_in_order(broker, topic="other")) == ["other"]


async def test_the_retry_topic_itself_can_be_received_in_order() -> None:
    async with running_broker() as broker:
        await fill(broker, "0", "1")
        await give_back(broker, await receive_in_order(broker), 1)
        await broker.mover.advance(1 * S)
        batch = await receive_in_order(broker, 1, topic=RETRY)
        assert (bodies(batch), await receive_in_order(broker, topic=RETRY)) == (["0"], [])
        await acknowledge(broker, batch)
        assert bodies(await receive_in_order(broker, topic=RETRY)) == ["1"]


# Failures


async def test_order_survives_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await fill(broker, "0", "1", "2", "3")
        batch = await receive_in_order(broker, 3)
        await acknowledge(broker, batch[1:2])
    async with running_broker(tmp_path) as broker:
        assert await receive_in_order(broker) == []
        await broker.mover.advance(10 * S)
        again = await receive_in_order(broker)
        assert bodies(again) == ["0", "2"]
        await acknowledge(broker, again)
        assert bodies(await receive_in_order(broker)) == ["3"]


@pytest.mark.interpreted
async def test_a_batch_is_redelivered_at_once_when_its_receiver_disconnects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        await fill(broker, "0", "1", "2")
        commit, writing = broker.store.writer.commit, asyncio.Event()

        async def watched(work: Work, **how: Any) -> object:
            writing.set()
            return await commit(work, **how)

        await broker.registry.groups.put(GROUP, 16, 1)
        monkeypatch.setattr(broker.store.writer, "commit", watched)
        receiver = asyncio.create_task(receive_in_order(broker, 2))
        await writing.wait()
        receiver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiver
        assert bodies(await receive_in_order(broker, wait_s=30)) == ["0", "1"]


@pytest.mark.interpreted
async def test_a_batch_whose_commit_failed_goes_to_the_next_receiver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        await fill(broker, "0", "1")
        await broker.registry.groups.put(GROUP, 16, 1)
        others: list[asyncio.Task[list[InFlightMessage]]] = []

        async def refuse(_: Work, **_how: Any) -> object:
            monkeypatch.undo()
            looks = Looks(broker, monkeypatch)
            others.append(asyncio.create_task(receive_in_order(broker, wait_s=30)))
            await looks.begun.wait()
            assert looks.found == [[]]
            raise StoreUnavailableError("no")

        monkeypatch.setattr(broker.store.writer, "commit", refuse)
        with pytest.raises(StoreUnavailableError):
            await receive_in_order(broker)
        async with asyncio.timeout(PATIENCE_S):
            assert bodies(await others[0]) == ["0", "1"]


async def test_messages_removed_by_a_reset_do_not_block() -> None:
    async with running_broker() as broker:
        await fill(broker, "0", "1")
        await receive_in_order(broker, 1)
        await broker.reset.topic(TOPIC)
        await fill(broker, "2")
        assert bodies(await receive_in_order(broker)) == ["2"]


async def test_many_consumers_receive_each_queue_in_order() -> None:
    async with running_broker(topic_queues=3) as broker:
        for n in range(60):
            await send(broker, str(n), queue=n % 3)
        done: list[int] = []

        async def work() -> None:
            while len(done) < 60:
                for one in await receive_in_order(broker, 4, wait_s=0.05):
                    done.append(int(one.message.body))
                    await acknowledge(broker, [one])

        async with asyncio.timeout(HANGING_S):
            await asyncio.gather(*(work() for _ in range(6)))
        sent = [int(body) for body in bodies(await visible(broker))]
        for queue in range(3):
            assert [n for n in done if n % 3 == queue] == [n for n in sent if n % 3 == queue]
