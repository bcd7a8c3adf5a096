"""Print answers: as JSON for scripts, or as tables and sentences for people."""

import json
import os
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from mocketmq.cli.table import NOTHING, Table
from mocketmq.cli.text import fold, harmless, harmless_json
from mocketmq.client.answer import JsonObject
from mocketmq.clock import US_PER_MS
from mocketmq.duration import format_duration

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Output:
    """Prints a command's answer, as JSON or for people."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def show_page(self, page: JsonObject, found: Table, nothing: str, *notes: str) -> None:
        """Print a page of messages, the value for the next one, and notes; ``nothing`` if it is empty."""
        parts = [found if page["messages"] else nothing]
        if page["next_after"] is not None:
            parts.append(f"there may be more: --after {page['next_after']}")
        self.show(page, *parts, *notes)

    def show(self, answer: JsonObject, *parts: Table | str) -> None:
        """Print the answer as JSON, or else the ``parts`` that say the same to people."""
        if self._as_json:
            sys.stdout.write(harmless_json(json.dumps(answer, indent=2, ensure_ascii=False)) + "\n")
        else:
            show(*parts)


def show(*parts: Table | str) -> None:
    """Print tables and sentences for people: as wide as the terminal, or in whole lines for files."""
    width = (sys.stdout.isatty() and os.get_terminal_size(sys.stdout.fileno()).columns) or None
    for part in parts:
        for line in part.lines(width) if isinstance(part, Table) else _lines(part, width):
            sys.stdout.write(f"{line}\n")


def _lines(text: str, width: int | None) -> Iterable[str]:
    text = harmless(text, "\n")
    return [text] if width is None else (cut for line in text.split("\n") for cut in fold(line, width))


def instant(ms: int | None, now_ms: int | None = None) -> str:
    """Epoch milliseconds as UTC, and their distance from ``now_ms``."""
    if ms is None:
        return NOTHING
    try:
        at = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms"  # beyond the year 9999
    text = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return text if now_ms is None else f"{text} ({distance(ms, now_ms)})"


def distance(ms: int | None, now_ms: int) -> str:
    """How far an instant is from now: ``in 10s``, ``10s ago`` or ``now``."""
    if ms is None:
        return NOTHING
    if ms == now_ms:
        return "now"
    text = format_duration(abs(ms - now_ms) * US_PER_MS)
    return f"in {text}" if ms > now_ms else f"{text} ago"
