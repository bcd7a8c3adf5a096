"""Reads the SQLite file of a broker without changing it, whether the broker runs or not.

Reading never blocks a broker. A database without a write-ahead log is opened as ``immutable``, which leaves
no file behind and works in a read-only directory. A database with a log is read like any SQLite database that
another process may be writing. All reading uses ADBC, which makes Arrow columns four times as fast as sqlite3
makes tuples. Do not use sqlite3 together with ADBC, because two copies of SQLite in one process release each
other's locks.
"""

import os
import re
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

import pyarrow as pa
from adbc_driver_sqlite import dbapi

from mocketmq.errors import StoreError, StoreUnavailableError, StoreUnreadableError
from mocketmq.store.damage import check_log, has_log
from mocketmq.store.database import FILE_NAME
from mocketmq.store.lock import is_held
from mocketmq.store.tables import HEAD_REVISION
from mocketmq_report.ledger.older_stores import OLDER_TABLES, views

BATCH_ROWS: Final = 16_384
OLDEST_REVISION: Final = "0005"
"""The oldest revision of the schema that can be read."""
_NEEDED: Final = {
    *("clock_moves", "delay_offsets", "deliveries", "interventions", "messages", "queues", "runs"),
    "timed_messages",
}
_SOURCE: Final = re.compile(r"[A-Z_]+: |\[SQLite] |[Ff]ailed to (prepare|step) query: ")
"""The prefixes that ADBC adds to SQLite's messages."""
_STORE: Final = f"a store is the file {FILE_NAME} in the data directory of a broker"
_HEADER: Final = struct.Struct(">16xH10xI")  # the start of a database file: page size and page count


class StoreReader:
    """A connection that sees the state of the database at its first query.

    All methods raise StoreUnreadableError if the file is not a database, is damaged or has an unknown schema,
    and StoreUnavailableError if the disk or a permission prevents reading.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        try:
            with database.open("rb"):  # an error here gives a better reason than SQLite's
                self._changed_ns = database.stat().st_mtime_ns
            self.has_log = has_log(database)
        except OSError as error:
            raise StoreUnavailableError(f"{database} cannot be read: {error.strerror}") from error
        check_log(str(database))
        options = "mode=ro" if self.has_log else "mode=ro&immutable=1"
        try:
            self._connection = dbapi.connect(f"file:{quote(str(database.absolute()))}?{options}")
        except dbapi.Error as error:
            raise self._error(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def check(self) -> None:
        """Raise StoreUnreadableError unless this is a store with a known schema."""
        tables = self.table("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")["name"]
        names = tables.to_pylist()
        if not self.has_log and (cut := _cut(self._database)):  # with a log, the missing pages may be in it
            raise StoreUnreadableError(f"{self._database} {cut}; restore it from a copy")
        if "alembic_version" not in names:
            found = f"is a database of another program, it has a table {names[0]!r}" if names else "is empty"
            raise StoreUnreadableError(f"{self._database} {found}: {_STORE}")
        revisions = self.table("SELECT version_num FROM alembic_version")["version_num"].to_pylist()
        if not [OLDEST_REVISION] <= revisions <= [HEAD_REVISION]:
            advice = "read it with the newer version of mocketmq that wrote it"
            if revisions < [OLDEST_REVISION]:
                advice = "start a broker of this version on it once, which brings it up to date"
            raise StoreUnreadableError(
                f"{self._database} has the schema {', '.join(revisions) or 'of no version'}, this version of"
                f" mocketmq reads {OLDEST_REVISION} to {HEAD_REVISION}: {advice}"
            )
        for sql in views(revisions[0], {name: self._columns(name) for name in OLDER_TABLES & {*names}}):
            self._execute(sql)
        if missing := sorted(_NEEDED.difference(names)):
            raise StoreUnreadableError(f"{self._database} is damaged: it has no table {missing[0]}")

    def _columns(self, table: str) -> list[str]:
        found: list[str] = self.table(f"SELECT name FROM pragma_table_info('{table}')")["name"].to_pylist()
        return found

    def _execute(self, sql: str) -> None:
        try:
            with closing(self._connection.cursor()) as cursor:
                cursor.execute(sql)
        except dbapi.Error as error:
            raise self._error(error) from error

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the query ``sql``, batch by batch.

        ADBC takes a column's type from its first rows, so a column of text must not begin with nulls.
        """
        with self._answer(sql) as batches:
            yield from batches

    def table(self, sql: str) -> pa.Table:
        with self._answer(sql) as batches:
            return batches.read_all()

    @contextmanager
    def _answer(self, sql: str) -> Iterator[pa.RecordBatchReader]:
        try:
            with closing(self._connection.cursor()) as cursor:
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
                cursor.execute(sql)
                with cursor.fetch_record_batch() as batches:
                    yield batches
            if not self.has_log and self._database.stat().st_mtime_ns != self._changed_ns:
                raise StoreUnavailableError(
                    f"{self._database} was changed while it was read: a broker was started on it; try again"
                )
        except (dbapi.Error, pa.ArrowException, OSError) as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> StoreError:
        """Turn SQLite's error into an error with a sentence."""
        reason = _SOURCE.sub("", str(error).partition("\n")[0])
        if "not a database" in reason:
            return StoreUnreadableError(f"{self._database} is not a database: {_STORE}")
        if "malformed" in reason:
            damage = _cut(self._database) or "is damaged: SQLite finds it malformed"
            return StoreUnreadableError(f"{self._database} {damage}; restore it from a copy")
        return StoreUnavailableError(
            f"{self._database} cannot be read: {reason}; if its directory is read-only, copy the whole"
            " directory to a writable place"
        )


def _cut(database: Path) -> str | None:
    """Return a clause on how much of a truncated file is missing; None for any other file."""
    with database.open("rb") as file:
        header = file.read(_HEADER.size)
        size = file.seek(0, os.SEEK_END)
    if len(header) < _HEADER.size:
        return None
    page_size, pages = _HEADER.unpack(header)
    whole = pages * (65_536 if page_size == 1 else page_size)
    return f"is truncated: of {whole:,} bytes, {size:,} are there" if size < whole else None


def is_running(database: Path) -> bool:
    """Return whether a broker holds the store. Takes no lock, because a broker may be starting."""
    return Path(f"{database}-wal").exists() and is_held(database.parent)
