"""The broker's clock for tests: moves forward only, and delivers messages that become due on the way."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from mocketmq.client.answer import JsonObject
from mocketmq.client.api_calls import Duration, Instant
from mocketmq.client.blocking import BlockingClient
from mocketmq.client.operations import Operations

__tracebackhide__ = True
"""Makes pytest show the calling line of the test instead of this file."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class BlockingClock:
    """The clock for plain tests. A move returns when all due messages are delivered."""

    def __init__(self, broker: BlockingClient) -> None:
        self._broker = broker

    def __call__(self) -> JsonObject:
        """Return the broker's time, and the next due time."""
        return BlockingClient.clock(self._broker)

    def advance(self, by: Duration) -> JsonObject:
        """Move the clock forward by a duration, such as ``30m``, or a timedelta."""
        return self._broker.advance(by)

    def to(self, instant: Instant) -> JsonObject:
        """Move the clock to an instant: epoch milliseconds, ISO 8601, or a datetime with a time zone."""
        return self._broker.move_to(instant)

    def next(self) -> JsonObject:
        """Move the clock to the next due time."""
        return self._broker.move_to_next()

    def now(self) -> datetime:
        """Return the broker's time in UTC."""
        return _at(self())


class AsyncClock:
    """The clock for async tests."""

    def __init__(self, broker: Operations) -> None:
        self._broker = broker

    async def __call__(self) -> JsonObject:
        """Return the broker's time, and the next due time."""
        return await Operations.clock(self._broker)

    async def advance(self, by: Duration) -> JsonObject:
        """Move the clock forward by a duration, such as ``30m``, or a timedelta."""
        return await self._broker.advance(by)

    async def to(self, instant: Instant) -> JsonObject:
        """Move the clock to an instant: epoch milliseconds, ISO 8601, or a datetime with a time zone."""
        return await self._broker.move_to(instant)

    async def next(self) -> JsonObject:
        """Move the clock to the next due time."""
        return await self._broker.move_to_next()

    async def now(self) -> datetime:
        """Return the broker's time in UTC."""
        return _at(await self())


def _at(clock: dict[str, Any]) -> datetime:
    return _EPOCH + timedelta(milliseconds=clock["now_ms"])
