"""Detects damage in the database file or its write-ahead log, and refuses to start on it, with advice.

SQLite keeps no checksums. A check walks the pages of every table and compares rows with their constraints; it
cannot detect a flipped bit in a body. A kill never damages the file. Damage comes from a disk that loses
synced data, or from copying a store while a broker writes to it.

SQLite silently treats a log with a broken header as empty and overwrites it, although it may hold every
message acknowledged since the last checkpoint. The broker therefore checks the header first.
"""

import asyncio
import logging
import os
import sqlite3
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from mocketmq.clock import US_PER_S, steady_us
from mocketmq.errors import (
    EmulatorError,
    StoreDamagedError,
    StoreUnavailableError,
    StoreUnreadableError,
    shorten,
)
from mocketmq.store.lock import is_held

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
    code = getattr(error, "sqlite_errorcode", None)  # errors of the sqlite3 module itself have no code
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
    """Whether a broker may be running on the database. The index of the log is then a shared file."""
    return Path(f"{database}-shm").exists() and is_held(database.parent)


def _changed_ns(database: Path) -> list[int]:
    files = (database, Path(f"{database}-wal"))
    return [file.stat().st_mtime_ns for file in files if file.exists()]


def _connect(database: Path) -> sqlite3.Connection:
    """Open a read-only connection, because closing a writable one would checkpoint the log.

    Neither changes nor creates a file. If no broker is running, this takes no locks, and SQLite keeps the
    index of the log in memory, as for a database in exclusive use.
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


_HEADER = struct.Struct(">8I")  # magic, version, page size, checkpoint, two salts, two checksums
_FRAME = struct.Struct(">6I")  # page, size of the database after a commit, two salts, two checksums
_SUMMED_BYTES = 8  # checksummed part of a frame's header; also the size of the log header's own checksums
_MAGIC = 0x377F0682  # plus 1 if the checksums are computed over big-endian words


def check_log(database: str) -> None:
    """Raise StoreUnreadableError if the log of this database has a broken header.

    A log shorter than a header, or left full of zeros by a power cut, is accepted because it holds no commit.
    """
    log = Path(f"{database}-wal")
    try:
        with log.open("rb") as file:
            header = file.read(_HEADER.size)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreUnavailableError(f"cannot read {log}: {error.strerror}") from error
    if len(header) == _HEADER.size and any(header) and not _is_intact(header):
        raise StoreUnreadableError(
            f"{log} has a broken header, so what was stored last cannot be read; it was left as it is."
            f" Restore it from a copy, or remove it to continue with the content of {database} alone"
        )


def has_commit(database: Path) -> bool:
    """Whether the log holds a committed transaction, in SQLite's view. Raises OSError.

    A read-only connection that finds none removes the log when it is closed.
    """
    with Path(f"{database}-wal").open("rb") as log:
        header = log.read(_HEADER.size)
        if len(header) < _HEADER.size or not _is_intact(header):
            return False
        magic, _, page_bytes, _, *salts, first, second = _HEADER.unpack(header)
        while len(frame := log.read(_FRAME.size + page_bytes)) == _FRAME.size + page_bytes:
            _, pages, *frame_salts, first_sum, second_sum = _FRAME.unpack_from(frame)
            summed = frame[:_SUMMED_BYTES] + frame[_FRAME.size :]
            first, second = _checksum(_words(magic, summed), first, second)
            if frame_salts != salts or (first, second) != (first_sum, second_sum):
                return False
            if pages:  # the size of the database after a commit; 0 in all other frames
                return True
    return False


def _is_intact(header: bytes) -> bool:
    magic, *_, first, second = _HEADER.unpack(header)
    if magic not in (_MAGIC, _MAGIC + 1):
        return False
    return _checksum(_words(magic, header[:-_SUMMED_BYTES])) == (first, second)


def _words(magic: int, data: bytes) -> Sequence[int]:
    return struct.unpack(f"{'<' if magic == _MAGIC else '>'}{len(data) // 4}I", data)


def _checksum(words: Sequence[int], first: int = 0, second: int = 0) -> tuple[int, int]:
    """Compute the checksum of SQLite's file format, section 4.2, from the checksum of the words before."""
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


log = logging.getLogger(__name__)

QUICK_S: Final = 1.0
"""Time after which a check that is still running is logged."""
NOTHING_KEPT: Final = "nothing of this request was kept"
_ADVICE: Final = "make room on its disk and the directory writable, or give another one with --data"
_MB: Final = 1_000_000


def check_file(path: Path, *, is_to_write: bool = True) -> None:
    """Raise StoreUnavailableError unless the file is missing or can be read and written.

    Needed because SQLite reports every cause as "unable to open database file".
    """
    try:
        with path.open("r+b" if is_to_write else "rb"):
            return
    except FileNotFoundError:
        return
    except IsADirectoryError:
        reason = "it is a directory; allowed: a database file"
    except OSError as error:
        reason = str(error.strerror)
    use = "writable" if is_to_write else "readable"
    raise StoreUnavailableError(
        f"cannot open {path}: {reason}. Move it away, make it {use}, or give another directory with --data"
    )


async def check_pages(path: Path) -> None:
    """Check for damage after an unclean stop. Raises StoreUnreadableError.

    The start waits for the check, however large the store is. Otherwise the broker could answer requests
    before the damage is found.
    """
    began_us = steady_us()
    checking = asyncio.create_task(asyncio.to_thread(find_damage, path))
    done, _ = await asyncio.wait({checking}, timeout=QUICK_S)
    size = _described(path)
    if not done:
        log.warning("the last run was not shut down cleanly: checking %s before the start", size)
    if found := await checking:
        raise StoreUnreadableError(_refusal(path, f"is damaged: {summary(found)}; it was left as it is"))
    log.log(
        logging.INFO if done else logging.WARNING,
        "the last run was not shut down cleanly: checked %s in %.2f s: no damage",
        size,
        (steady_us() - began_us) / US_PER_S,
    )


def opening_error(path: Path, error: Exception) -> StoreUnavailableError | StoreUnreadableError:
    """Return the error for a database that SQLite could not open."""
    if is_damage(error):
        reason = f"cannot be read as a database ({words_of(error)}); it was left as it is"
        return StoreUnreadableError(_refusal(path, reason))
    return StoreUnavailableError(f"cannot open {path}: {error}; {_ADVICE}")


@asynccontextmanager
async def naming_damage(path: Path) -> AsyncIterator[None]:
    """Name the damage in the error if the broker, started inside this context, fails because of it."""
    try:
        yield
    except Exception as error:
        if not _may_be_damage(error):
            raise
        found = await asyncio.to_thread(find_all_damage, path, lambda *_: None)
        if not found and isinstance(error, StoreDamagedError):
            found = [Damage(None, words_of(error.__cause__ or error))]
        if found:
            raise StoreUnreadableError(_refusal(path, f"is damaged: {summary(found)}")) from error
        if isinstance(error, StoreUnavailableError):
            reason = str(error).removesuffix(f"; {NOTHING_KEPT}")
            raise StoreUnavailableError(f"cannot start on {path}: {reason}; {_ADVICE}") from error
        raise


def _may_be_damage(error: Exception) -> bool:
    """Whether the error comes from invalid rows, or from SQLite itself."""
    return isinstance(error, StoreUnavailableError) or not isinstance(error, EmulatorError)


def _described(path: Path) -> str:
    size = path.stat().st_size if path.exists() else 0
    return f"{path}, {size / _MB:,.0f} MB,"


def _refusal(path: Path, reason: str) -> str:
    return (
        f"{path} {reason}. Restore it from a copy, move it away to start empty, or give another directory"
        f" with --data; mocketmq verify --data {path.parent} lists the damage"
    )
