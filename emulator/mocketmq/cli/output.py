"""Print answers: as JSON for scripts, or as tables and instants for people."""

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mocketmq.client.answer import JsonObject
from mocketmq.clock import US_PER_MS
from mocketmq.duration import format_duration

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_CELL = 500
_PIPE_WIDTH = 10_000
"""Width without a terminal, so that scripts and files get whole lines."""


class Output:
    """Prints a command's answer, as JSON or for people."""

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
        """Print a page of messages, the value for the next one, and notes; ``nothing`` if it is empty."""
        parts = [table(columns, rows) if page["messages"] else nothing]
        if page["next_after"] is not None:
            parts.append(f"there may be more: --after {page['next_after']}")
        self.show(page, *parts, *notes)

    def show(self, answer: JsonObject, *parts: Table | str) -> None:
        """Print the answer as JSON, or else the ``parts`` that say the same to people."""
        if self._as_json:
            sys.stdout.write(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode() + "\n")
            return
        for part in parts:
            self._console.print(part if isinstance(part, Table) else Text(part))


def console() -> Console:
    """The standard output, without colours for numbers and addresses."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table with a line per row. Columns of numbers have a name that begins with ``>``."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in columns:
        made.add_column(
            name.removeprefix(">"), justify="right" if name[0] == ">" else "left", overflow="fold"
        )
    for row in rows:
        made.add_row(*map(_cell, row))
    return made


def instant(ms: int | None, now_ms: int | None = None) -> str:
    """Epoch milliseconds as UTC, and their distance from ``now_ms``."""
    if ms is None:
        return "–"
    try:
        text = (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        text = f"{ms} ms"  # beyond the year 9999
    return text if now_ms is None else f"{text} ({distance(ms - now_ms)})"


def distance(ms: int) -> str:
    """A distance from now: ``in 10s``, ``10s ago`` or ``now``."""
    if ms == 0:
        return "now"
    text = format_duration(abs(ms) * US_PER_MS)
    return f"in {text}" if ms > 0 else f"{text} ago"


def harmless(text: str, allowed: str = "") -> str:
    """Text from clients with control characters escaped, but those ``allowed``: terminals obey them."""
    return "".join(
        c if c.isprintable() or c in allowed else c.encode("unicode_escape").decode() for c in text
    )


def _cell(value: object) -> Text:
    text = "–" if value is None else str(value)
    shown = harmless(text[:_LONGEST_CELL])
    return Text(f"{shown}…" if len(text) > _LONGEST_CELL else shown)
