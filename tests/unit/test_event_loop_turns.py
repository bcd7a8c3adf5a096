"""Splitting long work into turns of the event loop."""

import asyncio

from mocketmq.event_loop import EventLoopTurns


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
