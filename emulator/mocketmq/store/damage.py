"""Detect damage in the database file, by checking the whole file or from an SQLite error.

SQLite keeps no checksums. A check walks the pages of every table and compares rows with their constraints; it
cannot detect a flipped bit in a body. A kill never damages the file. A disk that loses synced data does, and
so does copying a store while a broker writes it.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from mocketmq.errors import StoreUnavailableError, shorten
from mocketmq.store.lock import is_held
from mocketmq.store.wal_header import has_commit

Progress = Callable[[str, int, int | None], None]
"""Receives the name of the step, the number of units done, and the total, if known."""

_HEADING: Final = "***"
"""Prefix of the line that only names the checked database."""
_TABLES: Final = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 ORDER BY rootpage"
_STEPS: Final = 100_000
"""Number of SQLite virtual machine instructions between two progress reports in a large table."""
_NOT_TEXT: Final = "decode to UTF-8"
_CODES: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
"""Exceptions that SQLite calls raise; UnicodeDecodeError if the error text quotes damaged data."""


class Damage(NamedTuple):
    """A problem in SQLite's words, and its table. ``table`` is None for pages outside all tables."""

    table: str | None
    problem: str

    def __str__(self) -> str:
        return self.problem if self.table is None else f"table {self.table}: {self.problem}"


def find_damage(database: Path) -> list[Damage]:
    """Check the whole file quickly, if the file exists. Blocks; changes neither the database nor the log.

    Raises StoreUnavailableError.
    """
    return _checked(database, _quick)


def find_all_damage(database: Path, progress: Progress) -> list[Damage]:
    """Like :func:`find_damage`, but also compare indexes with their tables. Takes up to twice as long."""
    return _checked(database, lambda connection: [*_by_table(connection, "integrity_check", progress)])


def schema_of(database: Path) -> str | None:
    """The revision of the schema, or None if it cannot be read. Raises StoreUnavailableError."""
    try:
        with closing(_connect(database)) as connection:
            [(revision,)] = connection.execute("SELECT version_num FROM alembic_version")
            return str(revision)
    except (*ERRORS, ValueError):
        return None
    except OSError as error:
        raise StoreUnavailableError(f"{database} cannot be read: {error.strerror}") from error


def is_damage(error: Exception) -> bool:
    """Whether this error, one of ``ERRORS``, was raised because the file is damaged."""
    code = getattr(error, "sqlite_errorcode", None)  # errors raised by the sqlite3 module itself have no code
    is_known = code is not None and code & 0xFF in _CODES
    return is_known or isinstance(error, UnicodeDecodeError) or _NOT_TEXT in str(error)


def words_of(error: BaseException) -> str:
    """Return SQLite's message, or a replacement if the message cannot be decoded."""
    if isinstance(error, UnicodeDecodeError) or _NOT_TEXT in str(error):
        return "a text is not UTF-8"
    return _one_line(str(error))


def summary(found: list[Damage]) -> str:
    """The first problem, and the number of further ones."""
    more = f" (and {len(found) - 1:,} more)" if len(found) > 1 else ""
    return f"{found[0]}{more}"


def has_log(database: Path) -> bool:
    """Whether a write-ahead log was left beside the database. A clean stop checkpoints and removes the log.

    Raises OSError.
    """
    try:
        return Path(f"{database}-wal").stat().st_size > 0
    except FileNotFoundError:
        return False


def _checked(database: Path, check: Callable[[sqlite3.Connection], list[Damage]]) -> list[Damage]:
    if not database.exists():
        return []
    try:
        is_still = not _is_in_use(database)
        before = _changed_ns(database)
        with closing(_connect(database)) as connection:
            found = check(connection)
        if is_still and (_is_in_use(database) or _changed_ns(database) != before):
            raise StoreUnavailableError(
                f"{database} was changed while it was checked: a broker was started on it; check it again"
            )
        return found
    except ERRORS as error:
        if is_damage(error):
            return [Damage(None, words_of(error))]
        raise StoreUnavailableError(f"{database} cannot be read: {error}") from error
    except OSError as error:
        raise StoreUnavailableError(f"{database} cannot be read: {error.strerror}") from error


def _is_in_use(database: Path) -> bool:
    """Whether a broker may be running on the database; the index of the log then is a file that it shares."""
    return Path(f"{database}-shm").exists() and is_held(database.parent)


def _changed_ns(database: Path) -> list[int]:
    files = (database, Path(f"{database}-wal"))
    return [file.stat().st_mtime_ns for file in files if file.exists()]


def _connect(database: Path) -> sqlite3.Connection:
    """Open a read-only connection, because closing a writable one would checkpoint the log.

    Changes no file and makes none. If no broker is running, this takes no locks, and SQLite keeps the index
    of the log in memory, as for a database in exclusive use.
    """
    options, has_it_alone = "mode=ro", False
    if not has_log(database):
        options += "&immutable=1"
    elif not _is_in_use(database) and os.name == "posix":
        has_it_alone = has_commit(database)
        options += "&vfs=unix-none" if has_it_alone else "&immutable=1"
    connection = sqlite3.connect(f"file:{quote(str(database.absolute()))}?{options}", uri=True)
    if has_it_alone:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")  # names may be damaged, too
    return connection


def _quick(connection: sqlite3.Connection) -> list[Damage]:
    if not [*_problems(connection, "quick_check")]:
        return []
    return [*_by_table(connection, "quick_check", lambda *_: None)]


def _by_table(connection: sqlite3.Connection, pragma: str, progress: Progress) -> Iterator[Damage]:
    """Check table by table, to name the table of each problem, then the pages outside all tables."""
    tables = [name for (name,) in connection.execute(_TABLES)]
    known: set[str] = set()
    for number, table in enumerate(tables):
        tell = partial(progress, f"checking table {table}", number, len(tables) + 1)
        tell()
        connection.set_progress_handler(tell, _STEPS)
        for problem in _problems(connection, f'{pragma}("{table}")'):
            known.add(problem)
            yield Damage(table, problem)
    progress("checking the pages of no table", len(tables), len(tables) + 1)
    for problem in _problems(connection, "quick_check"):
        if problem not in known:
            yield Damage(None, problem)


def _problems(connection: sqlite3.Connection, pragma: str) -> Iterator[str]:
    """Yield the problems that SQLite lists, at most a hundred."""
    try:
        for (text,) in connection.execute(f"PRAGMA {pragma}"):
            for line in text.splitlines():
                if line != "ok" and not line.startswith(_HEADING):
                    yield _one_line(line)
    except ERRORS as error:
        if not is_damage(error):
            raise
        yield words_of(error)


def _one_line(text: str) -> str:
    """Escape line ends and control characters, because the text may quote damaged data."""
    return shorten(text, 200)[1:-1]
