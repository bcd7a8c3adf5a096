"""Return freed memory to the operating system, which glibc does not do by itself after a flood."""

from typing import Final

_FLOOD_BYTES: Final = 4 << 20
"""After clients held more than this, freed memory is returned."""


class HighWater:
    """The most memory that was held since the last flood ended."""

    def __init__(self) -> None:
        self._most = 0

    def rise(self, held: int) -> None:
        """Note that so many bytes are held."""
        self._most = max(self._most, held)

    def has_fallen(self, held: int) -> bool:
        """Whether much was held, and most of it is free again; true once for each flood."""
        if self._most < _FLOOD_BYTES or held > self._most // 2:
            return False
        self._most = held
        return True


def give_back() -> None:
    """Call glibc's ``malloc_trim``; do nothing with other C libraries.

    It takes some milliseconds after a flood, otherwise next to nothing.
    """
    try:
        import ctypes  # noqa: PLC0415 - seldom needed

        trim = ctypes.CDLL(None).malloc_trim
    except (ImportError, OSError, AttributeError):
        return
    trim(0)
