"""The broker's clock in the hands of a test. It goes forward; what becomes due is delivered on the way."""

from datetime import UTC, datetime, timedelta
from typing import Any

from mocketmq.client.answer import JsonObject
from mocketmq.client.blocking import BlockingClient
from mocketmq.client.operations import Operations
from mocketmq.duration import format_duration
from mocketmq.instant import parse_instant_ms

__tracebackhide__ = True
"""pytest shows the line of the test that called, instead of what is here."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock:
    """For plain tests. Each move returns when all that became due is delivered."""

    def __init__(self, broker: BlockingClient) -> None:
        self._broker = broker

    def __call__(self) -> JsonObject:
        """The broker's time, and when something is due next."""
        return BlockingClient.clock(self._broker)

    def advance(self, by: str | timedelta) -> JsonObject:
        """Move it forward by a duration, such as ``30m``."""
        return self._broker.advance(_duration(by))

    def to(self, instant: str | int | datetime) -> JsonObject:
        """Move it to an instant: epoch milliseconds, a text in ISO 8601, or a datetime with a time zone."""
        return self._broker.move_to(_instant_ms(instant))

    def next(self) -> JsonObject:
        """Move it to the next due time."""
        return self._broker.move_to_next()

    def now(self) -> datetime:
        """Its time, in UTC."""
        return _at(self())


class AsyncClock:
    """For async tests: the same, to be awaited."""

    def __init__(self, broker: Operations) -> None:
        self._broker = broker

    async def __call__(self) -> JsonObject:
        """The broker's time, and when something is due next."""
        return await Operations.clock(self._broker)

    async def advance(self, by: str | timedelta) -> JsonObject:
        """Move it forward by a duration, such as ``30m``."""
        return await self._broker.advance(_duration(by))

    async def to(self, instant: str | int | datetime) -> JsonObject:
        """Move it to an instant: epoch milliseconds, a text in ISO 8601, or a datetime with a time zone."""
        return await self._broker.move_to(_instant_ms(instant))

    async def next(self) -> JsonObject:
        """Move it to the next due time."""
        return await self._broker.move_to_next()

    async def now(self) -> datetime:
        """Its time, in UTC."""
        return _at(await self())


def _duration(by: str | timedelta) -> str:
    return by if isinstance(by, str) else format_duration(by // timedelta(microseconds=1))


def _instant_ms(instant: str | int | datetime) -> int:
    return parse_instant_ms(instant.isoformat() if isinstance(instant, datetime) else str(instant))


def _at(clock: dict[str, Any]) -> datetime:
    return _EPOCH + timedelta(milliseconds=clock["now_ms"])
