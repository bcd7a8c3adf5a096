"""Durations and instants as operations take them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Union

from mocketmq.duration import format_duration, parse_duration_us
from mocketmq.instant import parse_instant_ms

__tracebackhide__ = True
"""Makes pytest show the calling line of the test instead of this file."""

Duration = Union[str, timedelta]
"""Such as ``200ms``, ``1.5s``, ``1h30m`` or ``timedelta(minutes=30)``."""
Instant = Union[str, int, datetime]
"""ISO 8601 with Z or an offset, epoch milliseconds, or a datetime with a time zone."""


def duration_text(duration: Duration, field: str) -> str:
    """Return the duration as text. Raises InvalidArgumentError for ``field``."""
    if not isinstance(duration, str):
        duration = format_duration(duration // timedelta(microseconds=1))
    parse_duration_us(duration, field)
    return duration


def instant_ms(instant: Instant, field: str) -> int:
    """Return the instant in epoch milliseconds. Raises InvalidArgumentError for ``field``."""
    return parse_instant_ms(instant.isoformat() if isinstance(instant, datetime) else str(instant), field)
