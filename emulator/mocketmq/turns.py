"""Split long work on the event loop into pieces, so that other tasks wait for one piece at most."""

import asyncio


class Turns:
    """The turns of the event loop, of which each has at most one piece of work of all that ask here."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def next(self) -> None:
        """Wait for a turn; the next piece begins when this returns, and ends at the next ``await``."""
        async with self._lock:
            await asyncio.sleep(0)
