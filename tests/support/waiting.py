"""Waits for a gauge of a broker, and for receivers that begin and stop waiting."""

import asyncio
import re
from collections.abc import Callable

import aiohttp

from mocketmq.broker.consuming.polls import Polls
from tests.support.patience import HANGING_S


async def metric_reaches(url: str, name: str, wanted: int) -> None:
    """Wait until the metric of the broker at this URL has the value."""
    async with asyncio.timeout(HANGING_S), aiohttp.ClientSession() as session:
        while True:
            async with session.get(f"{url}/metrics") as answer:
                found = re.search(rf"^{name} (\S+)$", await answer.text(), re.MULTILINE)
            assert found, f"the broker has no metric {name}"
            if float(found[1]) == wanted:
                return


class Waiting:
    """The receivers that wait in long polls of a broker in this process."""

    def __init__(self, polls: Polls) -> None:
        self._polls = polls

    async def begun(self) -> None:
        """Wait until a receiver waits."""
        await self._until(lambda: self._polls.count > 0)

    async def ended(self) -> None:
        """Wait until none waits any more."""
        await self._until(lambda: self._polls.count == 0)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(HANGING_S):
            while not condition():  # noqa: ASYNC110 - what it looks at sets no event
                await asyncio.sleep(0)
