"""When each second's directory last changed, in an eighth of a dictionary's memory.

How it works. Seconds are in spans of 32, and a span with a known time has an array with a place for each of
its seconds. A day with a message in every second takes a megabyte. A message alone in its span takes half a
kilobyte, which is less than its directory takes on disk.
"""

from array import array
from typing import Final

_SPAN: Final = 32
_UNKNOWN: Final = 0


class ChangeTimes:
    """Times by second, in nanoseconds of the file system's clock, as each directory was read."""

    def __init__(self) -> None:
        self._spans: dict[int, array[int]] = {}

    def get(self, second: int) -> int | None:
        """Return the time; None if it is unknown."""
        span, place = divmod(second, _SPAN)
        times = self._spans.get(span)
        return times[place] or None if times else None

    def note(self, second: int, changed_ns: int) -> None:
        span, place = divmod(second, _SPAN)
        times = self._spans.get(span)
        if times is None:
            times = self._spans[span] = array("q", (_UNKNOWN,)) * _SPAN
        times[place] = changed_ns

    def forget(self, second: int) -> None:
        span, place = divmod(second, _SPAN)
        times = self._spans.get(span)
        if times is not None:
            times[place] = _UNKNOWN
            if not any(times):
                del self._spans[span]
