"""The output of commands, as JSON for scripts, or as tables and sentences for people."""

import json
import os
import sys
from collections.abc import Iterable

from mocketmq.cli.table import NOTHING, Table
from mocketmq.cli.text import fold, harmless, harmless_json
from mocketmq.client.answer import JsonObject
from mocketmq.clock import US_PER_MS
from mocketmq.duration import format_duration
from mocketmq.instant import format_instant


class Output:
    """Prints the result of a command, as JSON or for people."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def show_page(self, page: JsonObject, found: Table, nothing: str, *notes: str) -> None:
        """Print a page of messages, the value for the next page, and notes; ``nothing`` if there are none."""
        parts = [found if page["messages"] else nothing]
        if page["next_after"] is not None:
            parts.append(f"there may be more: --after {page['next_after']}")
        self.show(page, *parts, *notes)

    def show(self, answer: JsonObject, *parts: Table | str) -> None:
        """Print the answer as JSON, or for people the ``parts``, which must have the same content."""
        if self._as_json:
            sys.stdout.write(harmless_json(json.dumps(answer, indent=2, ensure_ascii=False)) + "\n")
        else:
            show(*parts)


def show(*parts: Table | str) -> None:
    """Print tables and sentences for people. They are fitted to a terminal, but not to a file."""
    width = (sys.stdout.isatty() and os.get_terminal_size(sys.stdout.fileno()).columns) or None
    for part in parts:
        for line in part.lines(width) if isinstance(part, Table) else _lines(part, width):
            sys.stdout.write(f"{line}\n")


def _lines(text: str, width: int | None) -> Iterable[str]:
    text = harmless(text, "\n")
    return [text] if width is None else (cut for line in text.split("\n") for cut in fold(line, width))


def instant(ms: int | None, now_ms: int | None = None) -> str:
    """Format epoch milliseconds as UTC, with the distance from ``now_ms``."""
    if ms is None:
        return NOTHING
    text = format_instant(ms * US_PER_MS)
    return text if now_ms is None else f"{text} ({distance(ms, now_ms)})"


def distance(ms: int | None, now_ms: int) -> str:
    """Format the distance of an instant from now, as ``in 10s``, ``10s ago`` or ``now``."""
    if ms is None:
        return NOTHING
    if ms == now_ms:
        return "now"
    text = format_duration(abs(ms - now_ms) * US_PER_MS)
    return f"in {text}" if ms > now_ms else f"{text} ago"
