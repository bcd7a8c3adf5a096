"""Cleans up a delay scheme at intervals."""

from collections.abc import Awaitable, Callable

from mocketmq.store.chore import Chore


class Tidying(Chore):
    """Retries marks and adopts files at intervals, whether or not anything is delivered."""

    name = "delay-tidying"
    interval_s = 30.0

    def __init__(self, tidy: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self._tidy = tidy

    async def turn(self) -> None:
        await self._tidy()
