"""Delays a store's transactions and marks until the test lets them proceed."""

import asyncio
from typing import Any, cast

import pytest

from mocketmq.broker.broker import Broker
from mocketmq_compat.delay.stored_scheme import StoredScheme
from tests.support.patience import PATIENCE_S


class HeldUp:
    """Delays transactions until ``go``, or the end of the context."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = asyncio.Event()
        self._broker = broker
        self._transact = broker.store.writer._database.transact
        self._begun = asyncio.Event()
        monkeypatch.setattr(broker.store.writer._database, "transact", self._wait)

    async def _wait(self, statements: Any, *size: Any) -> None:
        self._begun.set()
        await self.go.wait()
        await self._transact(statements, *size)

    def __enter__(self) -> "HeldUp":
        return self

    def __exit__(self, *_: object) -> None:
        self.go.set()

    async def begun(self) -> None:
        """Wait until a transaction has begun and is held."""
        async with asyncio.timeout(PATIENCE_S):
            await self._begun.wait()

    async def queued(self, works: int) -> None:
        """Wait until this many pieces of work are queued for the next transaction."""
        async with asyncio.timeout(PATIENCE_S):
            while self._broker.store.writer.waiting < works:  # noqa: ASYNC110
                await asyncio.sleep(0)


class HeldMarks:
    """Keeps delay schemes from marking deliveries until ``durable``, as a slow sync of the store would."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.durable = asyncio.Event()
        marks = cast(StoredScheme, broker.schemes.timed()).marks
        self._synced = marks._synced
        monkeypatch.setattr(marks, "_synced", self._wait)

    async def _wait(self) -> None:
        await self.durable.wait()
        await self._synced()
