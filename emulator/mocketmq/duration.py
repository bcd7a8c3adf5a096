"""Parses and formats durations such as ``200ms``, ``1.5s`` or ``1h30m``, in whole microseconds."""

from __future__ import annotations

import re
from typing import Final

from mocketmq.errors import InvalidArgumentError

__tracebackhide__ = True
"""Makes pytest show the calling line of the test instead of this file."""

_UNITS_US: Final = {
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "µs": 1,
    "us": 1,
    "μs": 1,  # with a Greek letter
}
_PART: Final = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,18}))?(ms|[µuμ]s|[dhms])")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+")

# A century. Any emulated instant plus a century fits the 64 bits of a database column.
LONGEST_US: Final = 36_500 * _UNITS_US["d"]

_ALLOWED: Final = "a duration such as 200ms, 1.5s, 10s, 1h30m or 2d, from 0 to 36500d in whole microseconds"


def parse_duration_us(text: str, field: str = "duration") -> int:
    """Parse a duration into microseconds.

    Raises InvalidArgumentError for ``field`` if the text is not a duration, or the duration is longer than a
    century or finer than a microsecond.
    """
    if text == "0":
        return 0
    if not _WHOLE.fullmatch(text):
        raise InvalidArgumentError(field, text, _ALLOWED)
    total_us = 0
    for whole, fraction, unit in _PART.findall(text):
        part_us, finer = divmod(int(whole + fraction) * _UNITS_US[unit], 10 ** len(fraction))
        total_us += part_us
        if finer or total_us > LONGEST_US:
            raise InvalidArgumentError(field, text, _ALLOWED)
    return total_us


def format_duration(us: int) -> str:
    """Format ``us`` microseconds exactly: ``1h30m``, ``1.5s``, ``-200ms``, ``7µs``, ``0``."""
    if us <= 0:
        return f"-{format_duration(-us)}" if us else "0"
    text = ""
    for unit in ("d", "h", "m"):
        count, us = divmod(us, _UNITS_US[unit])
        text += f"{count}{unit}" if count else ""
    for unit in ("s", "ms", "µs"):
        count, rest = divmod(us, _UNITS_US[unit])
        if count:
            digits = len(str(_UNITS_US[unit])) - 1
            decimals = f".{rest:0{digits}}".rstrip("0") if rest else ""
            return f"{text}{count}{decimals}{unit}"
    return text
