"""A command's progress line on a terminal."""

import sys
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bars

from mocketmq.clock import US_PER_MS, US_PER_S, steady_us

_PATIENCE_US = US_PER_S
_REFRESH_US = 100 * US_PER_MS


class ProgressLine:
    """Shows progress on stderr, beginning after a second. Shows nothing if stderr is not a terminal."""

    def __init__(self) -> None:
        self._is_watched = sys.stderr.isatty()
        self._next_us = steady_us() + _PATIENCE_US
        self._bars: Bars | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, what: str, done: int, total: int | None) -> None:
        """Show that ``done`` of ``total`` steps are complete; ``total`` is None if unknown."""
        if not self._is_watched or (now_us := steady_us()) < self._next_us:
            return
        self._next_us = now_us + _REFRESH_US
        if self._bars is None:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
            self._bars = Bars(*columns, console=Console(stderr=True), transient=True)
            self._bars.add_task(what, total=None)
            self._bars.start()
        self._bars.update(self._bars.task_ids[0], description=what, completed=done, total=total)
