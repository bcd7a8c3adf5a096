"""Popped messages are acknowledged, kept invisible for longer, or become visible again."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from mocketmq.broker.consuming.pops import MAX_POPPED
from mocketmq.broker.filters.filter import EVERYTHING, parse_filter
from mocketmq.errors import ReceiptSpentError
from tests.broker.popping import INVISIBLE_US, acknowledge, change, fill, pop, pop_with_rest, takes, target_of
from tests.support.brokers import GROUP, S, bodies, receive, running_broker, send, visible

DLQ = f"%DLQ%{GROUP}"


class Room:
    """Memory without a limit."""

    async def wait_for_room(self, is_needed: Callable[[], bool] | None = None) -> None:
        """Return at once."""

    def reserve(self, most: int) -> int:
        return most

    def settle(self, size: int) -> None:
        """Keep no account."""

    def refuse(self) -> NoReturn:
        raise AssertionError


async def test_acknowledged_message_is_not_popped_again() -> None:
    async with running_broker() as broker:
        await fill(broker, "a", "b")
        first, second = await pop(broker)
        assert await acknowledge(broker, second, first) == [True, True]
        await broker.mover.advance(3600 * S)
        assert await pop(broker) == []
        assert await acknowledge(broker, first) == [False]


async def test_past_handle_is_refused() -> None:
    async with running_broker() as broker:
        await fill(broker, "a")
        [first] = await pop(broker)
        await broker.mover.advance(INVISIBLE_US)
        assert await acknowledge(broker, first) == [False]  # expired
        [second] = await pop(broker)
        assert await acknowledge(broker, first) == [False]  # popped again
        with pytest.raises(ReceiptSpentError):
            await change(broker, first, 0)
        third = await change(broker, second, 5 * S)
        assert await acknowledge(broker, second, third) == [False, True]


async def test_changed_invisible_time_starts_from_now() -> None:
    async with running_broker() as broker:
        await fill(broker, "a", "b")
        first, second = await pop(broker)
        await broker.mover.advance(50 * S)
        await change(broker, first, 120 * S)
        await change(broker, second, 0)
        again = await pop(broker)
        assert takes(again) == [("b", 2)]
        await acknowledge(broker, *again)
        await broker.mover.advance(120 * S - 1)
        assert await pop(broker) == []
        await broker.mover.advance(1)
        assert takes(await pop(broker)) == [("a", 2)]


async def test_messages_behind_the_limit_count_as_rest_whatever_the_filter() -> None:
    async with running_broker() as broker:
        await send(broker, "a", queue=0, tag="A")
        only_a = parse_filter("A")
        [first] = await pop(broker, tag_filter=only_a)
        await change(broker, first, 0)
        await send(broker, "b", queue=0, tag="A")
        await send(broker, "c", queue=0, tag="C")
        popped = await pop_with_rest(broker, 2, tag_filter=only_a)
        assert takes(list(popped.messages)) == [("a", 2), ("b", 1)]
        assert popped.rest == 1
        popped = await pop_with_rest(broker, 2, tag_filter=only_a)
        assert (popped.messages, popped.rest) == ([], 0)


async def test_handles_survive_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await fill(broker, "a", "b", "c")
        first, second, _ = await pop(broker)
        changed = await change(broker, second, INVISIBLE_US)
    async with running_broker(tmp_path) as broker:
        assert await pop(broker) == []
        assert await acknowledge(broker, second) == [False]
        assert await acknowledge(broker, first, changed) == [True, True]
        await broker.mover.advance(INVISIBLE_US)
        assert takes(await pop(broker)) == [("c", 2)]


async def test_pops_beyond_the_retries_make_no_dead_letter() -> None:
    """Popping clients forward dead letters themselves. Receipts of the same group follow another rule."""
    async with running_broker() as broker:
        await broker.registry.groups.put(GROUP, 2, 1)
        await fill(broker, "a")
        for times in range(1, 7):
            assert takes(await pop(broker)) == [("a", times)]
            await broker.mover.advance(INVISIBLE_US)
        assert broker.registry.topics.find_topic(DLQ) is None
        assert bodies(await receive(broker)) == ["a"]
        await broker.mover.advance(30 * S)
        assert broker.registry.topics.find_topic(DLQ) is not None


@pytest.mark.interpreted
async def test_a_pop_cancelled_beside_its_dead_letters_gives_the_other_messages_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        await broker.registry.groups.put(GROUP, 0, 1)
        await broker.registry.topics.ensure(DLQ, 1)
        await fill(broker, "tried before")
        await pop(broker)
        await broker.mover.advance(INVISIBLE_US)
        await fill(broker, "fresh")
        give_back, began = broker.settler.give_back, asyncio.Event()

        async def noted(*given: Any, **options: Any) -> Any:
            began.set()
            return await give_back(*given, **options)

        monkeypatch.setattr(broker.settler, "give_back", noted)
        popping = asyncio.create_task(
            broker.pops.pop_within_retries(
                await target_of(broker),
                MAX_POPPED,
                INVISIBLE_US,
                wait_s=0,
                tag_filter=EVERYTHING,
                attempt="",
                load=Room(),
            )
        )
        await began.wait()
        popping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await popping
        await broker.receiver.close()
        assert takes(await pop(broker)) == [("fresh", 1)]
        assert bodies(await visible(broker, DLQ)) == ["tried before"]
