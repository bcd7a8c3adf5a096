"""Returns freed memory to the operating system after a flood, because glibc itself would keep it."""

from typing import Final

_FLOOD_BYTES: Final = 4 << 20
"""Minimum memory that clients must have held before freed memory is returned."""


class HighWater:
    """The high-water mark of memory held since the last flood ended."""

    def __init__(self) -> None:
        self._most = 0

    def rise(self, held: int) -> None:
        """Record the number of bytes held."""
        self._most = max(self._most, held)

    def has_fallen(self, held: int) -> bool:
        """Whether a flood has ended: much memory was held, and at least half of it is free again.

        Returns True only once per flood.
        """
        if self._most < _FLOOD_BYTES or held > self._most // 2:
            return False
        self._most = held
        return True


def give_back() -> None:
    """Call glibc's ``malloc_trim``; do nothing with other C libraries.

    The call takes some milliseconds after a flood, and almost no time otherwise.
    """
    try:
        import ctypes  # noqa: PLC0415 - seldom needed

        trim = ctypes.CDLL(None).malloc_trim
    except (ImportError, OSError, TypeError, AttributeError):  # Windows raises TypeError
        return
    trim(0)
