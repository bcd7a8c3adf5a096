"""How answers are shown: as JSON for scripts, or as tables and instants that people can read."""

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mocketmq.client import JsonObject
from mocketmq.clock import US_PER_MS
from mocketmq.duration import format_duration

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_CELL = 500
_PIPE_WIDTH = 10_000
"""Columns where no terminal limits them, so that scripts and files get whole lines."""


class Output:
    """Where a client command shows its answer."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._console = console()

    def show_page(
        self,
        page: JsonObject,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        nothing: str,
        *notes: str,
    ) -> None:
        """Print one page of messages, how to go on, and notes; ``nothing`` is said of an empty one."""
        parts = [table(columns, rows) if page["messages"] else nothing]
        if page["next_after"] is not None:
            parts.append(f"there may be more: --after {page['next_after']}")
        self.show(page, *parts, *notes)

    def show(self, answer: JsonObject, *parts: Table | str) -> None:
        """Print the answer, or the parts that tell people the same."""
        if self._as_json:
            sys.stdout.write(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode() + "\n")
            return
        for part in parts:
            self._console.print(part if isinstance(part, Table) else Text(part))


def console() -> Console:
    """The standard output, without colours for what only looks like a number or an address."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table of one line per row; a column whose name begins with ``>`` holds numbers."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        made.add_column(
            name.removeprefix(">"), justify="right" if name[0] == ">" else "left", overflow="fold"
        )
    for row in rows:
        made.add_row(*map(_cell, row))
    return made


def instant(ms: int | None, now_ms: int | None = None) -> str:
    """Epoch milliseconds as UTC, and how far that is from ``now_ms``."""
    if ms is None:
        return "–"
    try:
        text = (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        text = f"{ms} ms"  # a delay may reach beyond the last year that has a name
    return text if now_ms is None else f"{text} ({distance(ms - now_ms)})"


def distance(ms: int) -> str:
    """How far an instant is from now: ``in 10s``, ``10s ago`` or ``now``."""
    if ms == 0:
        return "now"
    text = format_duration(abs(ms) * US_PER_MS)
    return f"in {text}" if ms > 0 else f"{text} ago"


def harmless(text: str, allowed: str = "") -> str:
    """What a client sent, without control characters, which a terminal would obey, but those allowed."""
    return "".join(
        c if c.isprintable() or c in allowed else c.encode("unicode_escape").decode() for c in text
    )


def _cell(value: object) -> Text:
    text = "–" if value is None else str(value)
    shown = harmless(text[:_LONGEST_CELL])
    return Text(f"{shown}…" if len(text) > _LONGEST_CELL else shown)
