"""The shelf of a partition is in order of due time with every scheme."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

import pytest

from mocketmq.errors import StoreLockedError
from mocketmq.relay.partition import RelayedMessage, Settled
from mocketmq.relay.shelf import BATCH, Shelf, ShelfScheme, shelves

DUE_US = 1_767_225_600_000_000


def pending(number: int, after_ms: int, content: bytes = b"body") -> RelayedMessage:
    return RelayedMessage(f"delayed-0/{number}", number, DUE_US + after_ms * 1_000, content)


@pytest.fixture(params=get_args(ShelfScheme))
async def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shelf]:
    """A shelf of each scheme."""
    with shelves(request.param, tmp_path / "data") as open_shelf:
        opened = open_shelf()
        yield opened
        await opened.close()


async def test_due_messages_come_in_order_and_stay_until_forgotten(shelf: Shelf) -> None:
    later, first, second = pending(1, 5, b"later"), pending(2, 0, b""), pending(3, 0)
    await shelf.take_in([later, first, second])
    assert await shelf.due(DUE_US) == [first, second]
    assert await shelf.next_due_us() == DUE_US
    await shelf.forget([first, second])
    assert await shelf.due(DUE_US) == []
    assert await shelf.next_due_us() == later.due_us
    assert await shelf.due(later.due_us) == [later]
    assert shelf.count == 1


async def test_a_log_restores_kept_messages_that_are_not_settled(shelf: Shelf) -> None:
    one, two, three = (pending(number, number) for number in (1, 2, 3))
    unknown = Settled(0, DUE_US)  # the log no longer has its message
    await shelf.take_in([unknown, one, two, Settled(1, one.due_us)])
    await shelf.take_in([three, Settled(2, two.due_us)])
    assert await shelf.due(DUE_US + 10_000) == [three]


async def test_a_repeated_message_replaces_its_content(shelf: Shelf) -> None:
    await shelf.take_in([pending(1, 0, b"early"), pending(2, 0)])
    await shelf.take_in([pending(1, 0, b"late")])
    assert await shelf.due(DUE_US) == [pending(1, 0, b"late"), pending(2, 0)]
    assert shelf.count == 2


async def test_messages_set_aside_are_skipped_until_brought_back(shelf: Shelf) -> None:
    one, two = pending(1, 0), pending(2, 7)
    await shelf.take_in([one, two])
    shelf.set_aside([one])
    assert await shelf.due(DUE_US) == []
    assert await shelf.next_due_us() == two.due_us
    shelf.bring_back()
    assert await shelf.due(DUE_US) == [one]


async def test_a_batch_is_bounded_by_count_and_by_size(shelf: Shelf) -> None:
    await shelf.take_in([pending(number, 0) for number in range(BATCH + 1)])
    assert len(await shelf.due(DUE_US)) == BATCH
    await shelf.forget([pending(number, 0) for number in range(BATCH + 1)])
    large = [pending(BATCH + number, 0, bytes(3 << 20)) for number in range(1, 5)]
    await shelf.take_in(large)
    assert await shelf.due(DUE_US) == large[:2]


def test_a_folder_belongs_to_one_relay_and_starts_empty(tmp_path: Path) -> None:
    left = tmp_path / "shelf-of-one-that-was-killed"
    left.mkdir()
    with shelves("slots", tmp_path) as open_shelf:
        assert not left.exists()
        with ExitStack() as stack, pytest.raises(StoreLockedError):
            stack.enter_context(shelves("slots", tmp_path))
        shelf = open_shelf()
        assert len(list(tmp_path.glob("shelf-*"))) == 1
        asyncio.run(shelf.close())
        assert not list(tmp_path.glob("shelf-*"))
