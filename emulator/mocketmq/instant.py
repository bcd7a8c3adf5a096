"""Parses instants in epoch milliseconds, or in ISO 8601 with an offset, and formats instants in UTC."""

from __future__ import annotations

import re
import sys
from datetime import datetime, timedelta, timezone
from typing import Final

from mocketmq.errors import InvalidArgumentError

__tracebackhide__ = True
"""Makes pytest show the calling line of the test instead of this file."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_ALLOWED: Final = (
    "epoch milliseconds, or an instant with Z or an offset,"
    " such as 2030-01-31T08:00:00Z or 2030-01-31T08:00:00+01:00"
)


def format_instant(instant_us: int) -> str:
    """Format as ISO 8601 with milliseconds, or after the year 9999 as epoch milliseconds."""
    try:
        at = _EPOCH + timedelta(microseconds=instant_us)
    except OverflowError:
        return f"{instant_us // 1_000} ms"
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_time(instant_us: int, seen_us: int) -> str:
    """Format as the time of day for a reader at ``seen_us``, with the date if that is another day."""
    try:
        at, seen = (_EPOCH + timedelta(microseconds=one) for one in (instant_us, seen_us))
    except OverflowError:
        return format_instant(instant_us)
    return f"{at:%H:%M:%S}" if at.date() == seen.date() else f"{at:%Y-%m-%d %H:%M:%S}"


def parse_instant_ms(text: str, field: str = "instant") -> int:
    """Parse an instant into epoch milliseconds, rounded up so that nothing happens before the instant.

    Raises InvalidArgumentError for ``field``. An instant without an offset is an error, too, because it would
    depend on the machine's time zone.
    """
    if re.fullmatch("[0-9]{1,15}", text):
        return int(text)
    try:
        return -((_EPOCH - datetime.fromisoformat(_for_this_python(text))) // timedelta(milliseconds=1))
    except (TypeError, ValueError):
        raise InvalidArgumentError(field, text, _ALLOWED) from None


def _for_this_python(text: str) -> str:
    """Adapt the text for Python before 3.11, which accepts no Z, and only fractions of 3 or 6 digits."""
    if sys.version_info < (3, 11):
        text = re.sub("[zZ]$", "+00:00", text)
        text = re.sub(r"[.,](\d{1,9})", lambda match: f".{match[1]:0<6.6}", text)
    return text
