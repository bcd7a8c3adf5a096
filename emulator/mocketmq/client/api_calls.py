"""Calls of the JSON API, from which the operations are built, with their durations and instants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Union
from urllib.parse import quote

from mocketmq.client.answer import JsonObject
from mocketmq.duration import format_duration, parse_duration_us
from mocketmq.instant import parse_instant_ms

__tracebackhide__ = True
"""Makes pytest show the calling line of the test instead of this file."""

Duration = Union[str, timedelta]
"""A duration, such as ``200ms``, ``1.5s``, ``1h30m`` or ``timedelta(minutes=30)``."""
Instant = Union[str, int, datetime]
"""An instant: ISO 8601 with Z or an offset, epoch milliseconds, or a datetime with a time zone."""


class ApiCalls(ABC):
    """Sends a request and returns the JSON object of the response. Raises BrokerError, UnreachableError."""

    @abstractmethod
    async def _call(self, method: str, path: str, body: object = None) -> JsonObject: ...

    @abstractmethod
    async def _get(self, path: str, query: Mapping[str, object] | None = None) -> JsonObject: ...


def api_path(*segments: str) -> str:
    """Join the segments of an API path, quoting each."""
    return "/v1/" + "/".join(quote(segment, safe="") for segment in segments)


def entries_of(answer: JsonObject, name: str) -> list[JsonObject]:
    """Return the list with this name in a response."""
    found: list[JsonObject] = answer[name]
    return found


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def duration_text(duration: Duration, field: str) -> str:
    """Return the duration as text. Raises InvalidArgumentError for ``field``."""
    if not isinstance(duration, str):
        duration = format_duration(duration // timedelta(microseconds=1))
    parse_duration_us(duration, field)
    return duration


def instant_ms(instant: Instant, field: str) -> int:
    """Return the instant in epoch milliseconds. Raises InvalidArgumentError for ``field``."""
    return parse_instant_ms(instant.isoformat() if isinstance(instant, datetime) else str(instant), field)
