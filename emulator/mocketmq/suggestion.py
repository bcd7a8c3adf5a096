"""Suggestions for mistyped names."""

from collections.abc import Iterable

_LONGEST = 200
"""Maximum number of characters that are compared. The time grows with its square."""


def suggestion_for(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar, or None."""
    from difflib import get_close_matches  # noqa: PLC0415 - imported only after a typo

    return next(iter(get_close_matches(name[:_LONGEST], known, 1)), None)
