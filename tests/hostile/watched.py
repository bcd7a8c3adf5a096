"""A broker in its own process, watched while it is attacked."""

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
    """The broker's memory and the answers to its health checks since the start of watching."""

    broker: BrokerProcess
    before: int
    began_us: int
    peak: int = 0
    healths: int = 0
    longest_ms: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds since the start of watching."""
        return (steady_us() - self.began_us) / US_PER_S

    def assert_well(self) -> None:
        """Check that memory stayed below its limit and every health check was answered."""
        print(  # noqa: T201 - for whoever asks for figures
            f"{self.before / MB:.0f}, at most {self.peak / MB:.0f}, now {memory(self.broker) / MB:.0f} MB;"
            f" longest health {self.longest_ms:.0f} ms; {self.seconds:.0f} s"
        )
        assert self.peak < MOST_BYTES
        assert self.healths >= int(self.seconds)  # holds on a very busy machine too
        assert "Traceback" not in self.broker.stderr, self.broker.stderr

    async def healthy(self) -> None:
        """Wait for 20 further answers to health checks."""
        last = self.healths + 20
        async with asyncio.timeout(PATIENCE_S):
            while self.healths < last:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(_PAUSE_S)

    async def memory_is_back(self) -> None:
        """Wait until memory is back at its earlier level, except for the heap that Python keeps."""
        async with asyncio.timeout(PATIENCE_S):
            while memory(self.broker) - self.before >= 60 * MB:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(_PAUSE_S)


@asynccontextmanager
async def watched(broker: BrokerProcess) -> AsyncIterator[Watched]:
    """Check the broker's health repeatedly; each check must be answered."""
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
