"""Long work in turns of the event loop."""

import asyncio

from mocketmq.turns import Turns


async def test_no_two_pieces_run_in_the_same_turn_of_the_loop() -> None:
    loop, turns, turn = asyncio.get_running_loop(), Turns(), 0
    pieces: list[int] = []

    def count() -> None:
        nonlocal turn
        turn += 1
        if len(pieces) < 9:
            loop.call_soon(count)

    async def work() -> None:
        for _ in range(3):
            await turns.next()
            pieces.append(turn)

    count()
    await asyncio.gather(*(work() for _ in range(3)))
    assert len(set(pieces)) == len(pieces) == 9
