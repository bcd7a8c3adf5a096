"""Splits long work on the event loop into pieces, so that other tasks wait for at most one piece."""

import asyncio


class EventLoopTurns:
    """Gives long work its turns. Each turn of the event loop runs only one piece of all waiting work."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def next_turn(self) -> None:
        """Wait for a turn. On return the caller's piece of work begins; it ends at the next ``await``."""
        async with self._lock:
            await asyncio.sleep(0)
