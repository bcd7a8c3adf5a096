"""Callbacks with which a long job reports its progress."""

from collections.abc import Callable

ProgressCallback = Callable[[str, int, int | None], None]
"""Called with the step, the amount done, and the total; None if the total is unknown."""


def ignore_progress(what: str, done: int, total: int | None) -> None:
    """Ignore progress."""
