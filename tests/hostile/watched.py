"""A broker in a process of its own, watched while others mean it harm."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp

from mocketmq.clock import US_PER_MS, US_PER_S, steady_us
from tests.hostile.flooded import MB, memory
from tests.support.patience import PATIENCE_S
from tests.support.process import BrokerProcess

MOST_BYTES = 250 * MB
_PAUSE_S = 0.02


@dataclass(slots=True)
class Watched:
    """The broker's memory, and how its health was answered, since it is watched."""

    broker: BrokerProcess
    before: int
    began_us: int
    peak: int = 0
    healths: int = 0
    longest_ms: float = 0.0

    @property
    def seconds(self) -> float:
        """For how long it has been watched."""
        return (steady_us() - self.began_us) / US_PER_S

    def assert_well(self) -> None:
        """Memory kept to its limit, and the health was answered all the time."""
        print(  # noqa: T201 - for whoever asks for figures
            f"{self.before / MB:.0f}, at most {self.peak / MB:.0f}, now {memory(self.broker) / MB:.0f} MB;"
            f" longest health {self.longest_ms:.0f} ms; {self.seconds:.0f} s"
        )
        assert self.peak < MOST_BYTES
        assert self.healths >= int(self.seconds)  # on a very busy machine, too
        assert "Traceback" not in self.broker.stderr, self.broker.stderr

    async def healthy(self, times: int = 20) -> None:
        """Wait until the health was answered so many times more."""
        last = self.healths + times
        async with asyncio.timeout(PATIENCE_S):
            while self.healths < last:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(_PAUSE_S)

    async def memory_is_back(self, at_most: int = 60 * MB) -> None:
        """Wait until memory is what it was before, but for the heap that Python keeps."""
        async with asyncio.timeout(PATIENCE_S):
            while memory(self.broker) - self.before >= at_most:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(_PAUSE_S)


@asynccontextmanager
async def watched(broker: BrokerProcess) -> AsyncIterator[Watched]:
    """Ask for the broker's health again and again; each must be answered."""
    timeout = aiohttp.ClientTimeout(PATIENCE_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:

        async def look(found: Watched) -> None:
            while True:
                began_us = steady_us()
                async with session.get(f"{broker.url}/healthz") as answer:
                    assert answer.status == 200
                found.healths += 1
                found.longest_ms = max(found.longest_ms, (steady_us() - began_us) / US_PER_MS)
                found.peak = max(found.peak, memory(broker))
                await asyncio.sleep(_PAUSE_S)

        found = Watched(broker, memory(broker), steady_us())
        looking = asyncio.create_task(look(found))
        try:
            yield found
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
