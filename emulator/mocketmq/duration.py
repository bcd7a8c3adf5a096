"""Read and write durations: text such as ``200ms``, ``1.5s`` or ``1h30m``, and whole microseconds."""

import re
from typing import Final

from mocketmq.errors import InvalidArgumentError

__tracebackhide__ = True
"""pytest shows the line of the test that called, instead of what is here."""

_UNITS_US: Final = {
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}
_PART: Final = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,18}))?(ms|us|[dhms])")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+")

# A century: added to any clock of the emulator, it still fits the 64 bits of a database column.
_LONGEST_US: Final = 36_500 * _UNITS_US["d"]

_ALLOWED: Final = "a duration such as 200ms, 1.5s, 10s, 1h30m or 2d, from 0 to 36500d in whole microseconds"


def parse_duration_us(text: str, field: str = "duration") -> int:
    """The microseconds that ``text`` stands for.

    Raises InvalidArgumentError, which names ``field``, for a text that is no duration, longer than a century,
    or finer than a microsecond.
    """
    if text == "0":
        return 0
    if not _WHOLE.fullmatch(text):
        raise InvalidArgumentError(field, text, _ALLOWED)
    total_us = 0
    for whole, fraction, unit in _PART.findall(text):
        part_us, finer = divmod(int(whole + fraction) * _UNITS_US[unit], 10 ** len(fraction))
        total_us += part_us
        if finer or total_us > _LONGEST_US:
            raise InvalidArgumentError(field, text, _ALLOWED)
    return total_us


def format_duration(us: int) -> str:
    """The exact text for ``us`` microseconds: ``1h30m``, ``1.5s``, ``-200ms``, ``0``."""
    if us <= 0:
        return f"-{format_duration(-us)}" if us else "0"
    text = ""
    for unit in ("d", "h", "m"):
        count, us = divmod(us, _UNITS_US[unit])
        text += f"{count}{unit}" if count else ""
    for unit in ("s", "ms", "us"):
        count, rest = divmod(us, _UNITS_US[unit])
        if count:
            digits = len(str(_UNITS_US[unit])) - 1
            decimals = f".{rest:0{digits}}".rstrip("0") if rest else ""
            return f"{text}{count}{decimals}{unit}"
    return text
