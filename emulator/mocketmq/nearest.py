"""Suggest the known name that an unknown one was probably meant to be."""

from collections.abc import Iterable

_LONGEST = 200
"""Characters that are compared; the time grows with their square."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like it; None if none does."""
    from difflib import get_close_matches  # noqa: PLC0415 - imported only after a typo

    return next(iter(get_close_matches(name[:_LONGEST], known, 1)), None)
