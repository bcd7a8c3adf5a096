"""Damage database files on purpose."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from mocketmq.store.database import FILE_NAME

PAGE_BYTES: Final = 4_096


def zero_page(database: Path, number: int) -> None:
    """Write zeros over a page, counted from 1."""
    content = bytearray(database.read_bytes())
    content[(number - 1) * PAGE_BYTES : number * PAGE_BYTES] = bytes(PAGE_BYTES)
    database.write_bytes(content)


def zero_some_page(database: Path, chance: random.Random) -> None:
    """Write zeros over any page."""
    zero_page(database, chance.randint(1, database.stat().st_size // PAGE_BYTES))


def flip_bits(database: Path, chance: random.Random, count: int = 40) -> None:
    """Flip bits anywhere in the file."""
    content = bytearray(database.read_bytes())
    for _ in range(count):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    database.write_bytes(content)


def zero_page_with(database: Path, content: bytes) -> None:
    """Write zeros over the first page that contains these bytes."""
    zero_page(database, database.read_bytes().index(content) // PAGE_BYTES + 1)


def zero_root(data: Path, name: str) -> None:
    """Write zeros over the first page of a table or an index in a data directory."""
    database = data / FILE_NAME
    with closing(sqlite3.connect(f"file:{database}?mode=ro&immutable=1", uri=True)) as connection:
        [(page,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,))
    zero_page(database, page)
