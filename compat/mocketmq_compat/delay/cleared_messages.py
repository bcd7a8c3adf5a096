"""Records that a reset or a restore has removed messages, however many, in little time of the event loop.

SQLite reads the entries from pages of JSON. A row of Python objects for each message would hold up the event
loop, and SQLite's thread would wait for the interpreter's lock at every few rows.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from mocketmq.store.batch import Batch
from mocketmq_compat.delay.delayed_file import Entry

_PAGE: Final = 10_000
_FROM_PAGE: Final = """INTO timed_messages
SELECT json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[0]'), 'cleared', -1
FROM json_each(?)"""
NOTE_CLEARED: Final = f"INSERT OR IGNORE {_FROM_PAGE}"
"""Records messages as removed, unless they are already settled."""
CLEAR_AGAIN: Final = f"INSERT OR REPLACE {_FROM_PAGE}"
"""Records messages as removed, even if they are already settled."""


def pages_of(entries: Iterable[Entry]) -> list[str]:
    """Return pages of these entries."""
    left = iter(entries)
    pages = []
    while page := [*islice(left, _PAGE)]:
        pages.append(msgspec.json.encode(page).decode())
    return pages


def clear_all(batch: Batch, statement: str, pages: Iterable[str]) -> None:
    """Run one of the statements above for each page."""
    for page in pages:
        batch.sweep(statement, (page,))
