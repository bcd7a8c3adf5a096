"""Long work on the event loop, cut into pieces, so that nobody else waits for more than one of them."""

import asyncio


class Turns:
    """The turns of the event loop, of which each has at most one piece of work of all that ask here."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def next(self) -> None:
        """Wait for a turn; the next piece begins when this returns, and ends at the next ``await``."""
        async with self._lock:
            await asyncio.sleep(0)
