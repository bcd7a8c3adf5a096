"""How a long job tells what it is doing."""

from collections.abc import Callable

ProgressCallback = Callable[[str, int, int | None], None]
"""Called with what is being done, how much of it is done, and how much there is to do, if that is known."""


def ignore_progress(what: str, done: int, total: int | None) -> None:
    """A callback for jobs that nobody watches."""
