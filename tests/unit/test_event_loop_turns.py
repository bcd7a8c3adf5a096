"""Splitting long work into turns of the event loop."""

import asyncio

import pytest

from mocketmq import event_loop
from mocketmq.event_loop import EventLoopTurns, pieces_of


async def test_pieces_run_in_separate_turns_of_the_loop() -> None:
    loop, turns, turn = asyncio.get_running_loop(), EventLoopTurns(), 0
    pieces: list[int] = []

    def count() -> None:
        nonlocal turn
        turn += 1
        if len(pieces) < 9:
            loop.call_soon(count)

    async def work() -> None:
        for _ in range(3):
            await turns.next_turn()
            pieces.append(turn)

    count()
    await asyncio.gather(*(work() for _ in range(3)))
    assert len(set(pieces)) == len(pieces) == 9


def test_pieces_are_in_order_and_do_not_separate_equal_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "PIECE", 2)
    assert [*pieces_of([1, 2, 3])] == [[1, 2], [3]]
    assert [*pieces_of([1, 2, 2, 2, 3, 4, 5, 5], key=lambda item: item)] == [[1, 2, 2, 2], [3, 4], [5, 5]]
    assert [*pieces_of([])] == []
