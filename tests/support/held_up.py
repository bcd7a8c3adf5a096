"""A disk that is as slow as a test wants it."""

import asyncio
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from tests.support.patience import PATIENCE_S


class HeldUp:
    """Lets transactions wait until ``go``, or the end of the context."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = asyncio.Event()
        self._broker = broker
        self._transact = broker.store.writer._database.transact
        self._begun = asyncio.Event()
        monkeypatch.setattr(broker.store.writer._database, "transact", self._wait)

    async def _wait(self, statements: Any) -> None:
        self._begun.set()
        await self.go.wait()
        await self._transact(statements)

    def __enter__(self) -> "HeldUp":
        return self

    def __exit__(self, *_: object) -> None:
        self.go.set()

    async def begun(self) -> None:
        """Until one waits."""
        async with asyncio.timeout(PATIENCE_S):
            await self._begun.wait()

    async def queued(self, works: int) -> None:
        """Until the transaction after it has so many pieces of work."""
        async with asyncio.timeout(PATIENCE_S):
            while self._broker.store.writer.waiting < works:  # noqa: ASYNC110
                await asyncio.sleep(0)
