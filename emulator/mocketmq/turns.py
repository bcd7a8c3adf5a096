"""Split long work on the event loop into pieces, so that other tasks wait for one piece at most."""

import asyncio


class Turns:
    """Turns of the event loop. Of all long work that waits here, each turn runs one piece."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def next(self) -> None:
        """Wait for a turn; the next piece begins when this returns, and ends at the next ``await``."""
        async with self._lock:
            await asyncio.sleep(0)
