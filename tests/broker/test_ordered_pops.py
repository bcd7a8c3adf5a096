"""Ordered pops: a queue waits for all its messages in flight, and redelivered messages come first."""

from pathlib import Path

import pytest

from mocketmq.errors import StoreUnavailableError
from tests.broker.popping import (
    INVISIBLE_US,
    acknowledge,
    change,
    fill,
    pop,
    pop_with_rest,
    takes,
    target_of,
    waiting_pop,
)
from tests.support.brokers import GROUP, TOPIC, Refusing, S, bodies, running_broker


async def test_queue_waits_for_all_its_messages_in_flight() -> None:
    async with running_broker() as broker:
        await fill(broker, "a", "b", "c")
        first, second = await pop(broker, 2, ordered=True)
        assert await pop(broker, ordered=True) == []
        await acknowledge(broker, second)
        assert await pop(broker, ordered=True) == []
        waiting = await waiting_pop(broker, ordered=True)
        await acknowledge(broker, first)
        assert bodies(await waiting) == ["c"]


async def test_redelivered_messages_come_first() -> None:
    async with running_broker() as broker:
        await fill(broker, "a", "b", "c")
        first, _ = await pop(broker, 2, ordered=True)
        await acknowledge(broker, first)
        await broker.mover.advance(INVISIBLE_US)
        popped = await pop_with_rest(broker, 1, ordered=True)
        assert (takes([*popped.messages]), popped.rest) == ([("b", 2)], 1)


async def test_new_messages_follow_redelivered_ones() -> None:
    async with running_broker() as broker:
        await fill(broker, "a", "b", "c", "d")
        first, second, _ = await pop(broker, 3, ordered=True)
        await acknowledge(broker, second)
        await change(broker, first, 0)
        assert await pop(broker, ordered=True) == []  # "c" is still in flight
        await broker.mover.advance(INVISIBLE_US)
        popped = await pop_with_rest(broker, 1, ordered=True)
        assert (bodies(popped.messages), popped.rest) == (["a"], 3)
        assert await pop(broker, ordered=True) == []
        await broker.mover.advance(INVISIBLE_US)
        assert takes(await pop(broker, ordered=True)) == [("a", 3), ("b", 2), ("c", 2), ("d", 1)]


async def test_message_acknowledged_out_of_turn_is_redelivered() -> None:
    """As in PopOrderlyIT of 5.3.3."""
    async with running_broker() as broker:
        await fill(broker, "a", "b", "c", "d")
        first, second, third = await pop(broker, 3, ordered=True)
        await acknowledge(broker, first)
        await change(broker, second, 3 * S, same_handle=True)
        waiting = await waiting_pop(broker, limit=3, ordered=True)
        assert await acknowledge(broker, third) == [True]
        assert await acknowledge(broker, third) == [False]
        await broker.mover.advance(3 * S)
        again = await waiting
        assert takes(again) == [("b", 2), ("c", 2), ("d", 1)]
        for one in reversed(again):
            assert await acknowledge(broker, one) == [True]
        [queue, *_] = broker.registry.topics.get(TOPIC).queues
        group_queue = broker.consuming_groups.get(GROUP).queues[queue]
        assert (group_queue.committed_offset, group_queue.open) == (4, {})


async def test_message_acknowledged_out_of_turn_settles_with_the_earlier_one() -> None:
    async with running_broker() as broker:
        await fill(broker, "a", "b", "c", "d")
        first, second, third = await pop(broker, 3, ordered=True)
        for one in (second, third, first):
            assert await acknowledge(broker, one) == [True]
        assert bodies(await pop(broker, ordered=True)) == ["d"]


async def test_unacknowledged_message_redelivers_later_ones() -> None:
    """If it is popped alone, the acknowledgements of the later messages are lost, as upstream."""
    async with running_broker() as broker:
        await fill(broker, "a", "b", "c")
        first, *others = await pop(broker, ordered=True)
        await acknowledge(broker, *others)
        await change(broker, first, 0)
        again = await pop(broker, 1, ordered=True)
        assert await acknowledge(broker, *again) == [True]
        assert takes(await pop(broker, ordered=True)) == [("b", 2), ("c", 2)]


async def test_acknowledgement_behind_another_survives_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await fill(broker, "a", "b", "c")
        _, second, _ = await pop(broker, ordered=True)
        await acknowledge(broker, second)
    async with running_broker(tmp_path) as broker:
        await broker.mover.advance(INVISIBLE_US)
        assert bodies(await pop(broker, ordered=True)) == ["a", "c"]


async def test_failed_pop_loses_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker() as broker:
        await fill(broker, "a", "b")
        first, second = await pop(broker, ordered=True)
        await acknowledge(broker, second)
        await change(broker, first, 0)
        async with Refusing(broker, monkeypatch):
            with pytest.raises(StoreUnavailableError):
                await pop(broker, ordered=True)
        assert takes(await pop(broker, ordered=True)) == [("a", 2), ("b", 2)]


# Attempts


async def test_repeated_attempt_gets_the_same_messages() -> None:
    async with running_broker() as broker:
        await fill(broker, "a", "b")
        [lost] = await pop(broker, 1, ordered=True, attempt="one")
        assert await pop(broker, ordered=True, attempt="two") == []
        target = await target_of(broker)
        assert not await broker.pops.has_messages(target, ordered=True)
        assert await broker.pops.has_messages(target, ordered=True, attempt="one")
        again = await pop(broker, 1, ordered=True, attempt="one")
        assert takes(again) == [("a", 1)]
        assert await acknowledge(broker, lost) == [False]
        assert await acknowledge(broker, *again) == [True]
        assert bodies(await pop(broker, ordered=True, attempt="one")) == ["b"]
        await broker.mover.advance(INVISIBLE_US)
        assert takes(await pop(broker, ordered=True, attempt="one")) == [("b", 1)]  # however late
        await broker.mover.advance(INVISIBLE_US)
        assert takes(await pop(broker, ordered=True, attempt="two")) == [("b", 2)]


async def test_repeated_attempt_gets_messages_acknowledged_out_of_turn() -> None:
    async with running_broker() as broker:
        await fill(broker, "a", "b", "c")
        _, second = await pop(broker, 2, ordered=True, attempt="one")
        assert await acknowledge(broker, second) == [True]
        again = await pop(broker, ordered=True, attempt="one")
        assert takes(again) == [("a", 1), ("b", 1), ("c", 1)]


async def test_repeated_attempt_undoes_only_its_own_pop() -> None:
    """Messages that an earlier pop left behind keep their count, however often the attempt is repeated."""
    async with running_broker() as broker:
        await fill(broker, "a", "b", "c")
        assert takes(await pop(broker, 3, ordered=True, attempt="one")) == [("a", 1), ("b", 1), ("c", 1)]
        for _ in range(3):
            assert takes(await pop(broker, 1, ordered=True, attempt="one")) == [("a", 1)]
        assert takes(await pop(broker, ordered=True, attempt="one")) == [("a", 1), ("b", 1), ("c", 1)]


async def test_attempt_whose_answer_was_lost_counts_once() -> None:
    async with running_broker() as broker:
        await fill(broker, "a")
        for _ in range(2):
            taken = await pop(broker, ordered=True, attempt="one")
            assert takes(taken) == [("a", 1)]
            await broker.receiver.release(GROUP, taken)
        assert takes(await pop(broker, ordered=True, attempt="one")) == [("a", 1)]
