"""Producers get check-backs for half messages in time, and undecided half messages are rolled back."""

import asyncio
from typing import Any

import pytest

from mocketmq.broker.transactions.popped_halves import LIFETIME_US
from mocketmq.errors import (
    ReceiptSpentError,
)
from mocketmq.message.names import HALF_GROUP
from mocketmq.store.writer import Work
from tests.broker.half_messages import IMMUNITY_US, commit, pop, prepare
from tests.support.brokers import (
    TOPIC,
    S,
    bodies,
    running_broker,
    visible,
)
from tests.support.patience import PATIENCE_S


async def test_check_starts_when_the_immunity_time_ends() -> None:
    async with running_broker() as broker:
        first = await prepare(broker, "0")
        await broker.mover.advance(1)
        await prepare(broker, "1")
        await broker.mover.advance(IMMUNITY_US - 2)
        assert await pop(broker) == []
        await broker.mover.advance(1)
        [asked] = await pop(broker)
        assert (asked.message, asked.topic, asked.times) == (first.stored, TOPIC, 1)
        assert asked.visible_us == broker.clock.now_us() + 10 * S
        [(_, error)] = (await commit(broker, [first])).failed
        assert isinstance(error, ReceiptSpentError)
        assert (await commit(broker, [asked])).done == [asked.handle]
        assert bodies(await visible(broker)) == ["0"]


async def test_due_check_wakes_a_waiting_producer() -> None:
    async with running_broker() as broker:
        waiting = asyncio.create_task(pop(broker, wait_s=30))
        await prepare(broker)
        await broker.mover.advance(IMMUNITY_US)
        async with asyncio.timeout(PATIENCE_S):
            assert bodies(await waiting) == ["half"]


async def test_checks_repeat_every_ten_seconds() -> None:
    async with running_broker() as broker:
        half = await prepare(broker)
        await broker.mover.advance(IMMUNITY_US)
        for times in range(1, 41):
            [asked] = await pop(broker)
            assert asked.times == times
            await broker.mover.advance(10 * S - 1)
            assert await pop(broker) == []
            await broker.mover.advance(1)
        assert broker.registry.topics.find_topic(f"%DLQ%{HALF_GROUP}") is None
        await commit(broker, await pop(broker))
        assert [message.unique_key for message in await visible(broker)] == [half.stored.unique_key]


async def test_half_messages_are_popped_oldest_first_by_topic_and_by_tag() -> None:
    async with running_broker() as broker:
        for n in range(4):
            await prepare(broker, str(n), TAGS="AB"[n % 2], queue_id=3 - n)
        await prepare(broker, "other", topic="other")
        await broker.mover.advance(IMMUNITY_US)
        assert bodies(await pop(broker, 1)) == ["0"]
        assert bodies(await pop(broker)) == ["1", "2", "3"]
        assert bodies(await pop(broker, topic="other")) == ["other"]


@pytest.mark.interpreted
async def test_pop_by_a_disconnected_producer_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker() as broker:
        await prepare(broker)
        await broker.mover.advance(IMMUNITY_US)
        writing = asyncio.Event()
        write = broker.store.writer.commit

        async def watched(work: Work, **how: Any) -> object:
            writing.set()
            return await write(work, **how)

        monkeypatch.setattr(broker.store.writer, "commit", watched)
        waiting = asyncio.create_task(pop(broker, wait_s=30))
        await writing.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert [one.times for one in await pop(broker, wait_s=30)] == [1]


async def test_an_undecided_half_message_is_rolled_back_after_a_day() -> None:
    async with running_broker() as broker:
        started_us = broker.clock.now_us()
        lazy = await prepare(broker, "never popped")
        await broker.mover.advance(LIFETIME_US - 1)
        younger = await prepare(broker, "younger")
        [popped] = await pop(broker)
        assert popped.message == lazy.stored
        await broker.mover.advance(1)
        assert (
            broker.half_messages.abandoned,
            broker.popped_halves.next_due_us(),
        ) == (
            0,
            started_us + 2 * LIFETIME_US - 1,
        )
        await broker.mover.advance(10 * S)
        assert (
            broker.half_messages.abandoned,
            broker.half_messages.rolled_back,
        ) == (1, 0)
        assert (await commit(broker, [popped])).failed
        await broker.mover.advance(LIFETIME_US)
        assert (
            broker.half_messages.abandoned,
            broker.popped_halves.next_due_us(),
        ) == (2, None)
        assert (await pop(broker), await visible(broker)) == ([], [])
        for half, settled_us in (
            (lazy, started_us + LIFETIME_US + 10 * S - 1),
            (younger, started_us + 2 * LIFETIME_US - 1),
        ):
            [take] = (await broker.histories.of(half.stored.unique_key)).receipts
            assert (take.outcome, take.settled_us) == ("rolled back", settled_us)


async def test_valid_handle_decides_after_a_day() -> None:
    async with running_broker() as broker:
        await prepare(broker)
        await broker.mover.advance(LIFETIME_US - 1)
        popped = await pop(broker)
        await broker.mover.advance(10 * S - 1)
        assert (await commit(broker, popped)).done
        assert bodies(await visible(broker)) == ["half"]


async def test_very_many_undecided_half_messages_are_rolled_back_in_steps() -> None:
    async with running_broker() as broker:
        broker.popped_halves.batch = 3
        for _ in range(13):
            await prepare(broker)
        await broker.mover.advance(LIFETIME_US - 1)
        held = await pop(broker, 3)
        before = broker.store.writer.commits
        async with asyncio.timeout(PATIENCE_S):
            await broker.mover.advance(1)
        assert (broker.half_messages.abandoned, broker.store.writer.commits - before) == (
            10,
            1 + 4 + 1,  # the held messages', the others', and the move's own
        )
        assert (await commit(broker, held)).failed == []
