"""Answers SQL queries on a ledger with DuckDB, in this process.

DuckDB reads the tables ``deliveries``, ``runs``, ``moves`` and ``faults`` as streams of Arrow batches, so a
ledger may be larger than the memory. A query can read nothing else: DuckDB's access to files, extensions and
Python's variables is off, and its settings are locked.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow as pa

from mocketmq.errors import RefusedError
from mocketmq_report.ledger.ledger import Ledger
from mocketmq_report.questions import arrow
from mocketmq_report.questions.ledger_tables import TABLES, TableSelection, read_ledger, selection

MEMORY: Final = "1GB"
"""Maximum memory of DuckDB, for sorting, joining and grouping; it writes nothing to a disk."""
_LOCKED: Final[dict[str, str | bool | int | float | list[str]]] = {
    "allow_community_extensions": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "memory_limit": MEMORY,
    "temp_directory": "",
}
_SETUP: Final = (
    "CREATE MACRO timestamp_micros(us) AS make_timestamp(us)",  # Spark's name
    "SET python_enable_replacements = false",
    "SET lock_configuration = true",
)
_ALLOWED: Final = "one SELECT, or a WITH, FROM, DESCRIBE or SUMMARIZE that DuckDB understands as one"


class QueryError(RefusedError):
    """A query is not allowed, or DuckDB cannot answer it; the message says why."""


class QueryAnswer(NamedTuple):
    """The first rows of an answer."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    is_cut: bool  # whether there are more rows


def ask(query: str, data: Sequence[str], most: int) -> QueryAnswer:
    """Answer a query on the ledger of some local paths, with at most ``most`` rows.

    Raises QueryError, BrokenLedgerError, and StoreError.
    """
    ledger = read_ledger(data)
    failed: list[Exception] = []
    with _connection(ledger, failed) as connection:
        try:
            _check(connection, query)
            result = connection.execute(query)
            rows = result.fetchmany(most + 1)
            columns = _apart([name for name, *_ in result.description or ()])
        except duckdb.Error as error:
            if failed:  # raise the reader's own error, which DuckDB reports without its type
                raise failed[0] from error
            raise QueryError(_sentence(error)) from error
    return QueryAnswer(columns, rows[:most], len(rows) > most)


class _Stream:
    """A table that DuckDB may read more than once."""

    def __init__(self, ledger: Ledger, selected: TableSelection, failed: list[Exception]) -> None:
        self._ledger = ledger
        self._selected = selected
        self._failed = failed

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        batches = pa.RecordBatchReader.from_batches(self._selected.schema, self._batches())
        return batches.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from arrow.reader(self._ledger, self._selected)
        except Exception as error:
            self._failed.append(error)
            raise


@contextmanager
def _connection(ledger: Ledger, failed: list[Exception]) -> Iterator[duckdb.DuckDBPyConnection]:
    connection = duckdb.connect(":memory:", config=_LOCKED)
    try:
        for table in TABLES:
            connection.register(table, _Stream(ledger, selection(table), failed))
        for statement in _SETUP:
            connection.execute(statement)
        yield connection
    finally:
        connection.close()


def _check(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    kinds = [statement.type for statement in connection.extract_statements(query)]
    if kinds != [duckdb.StatementType.SELECT]:
        found = ", ".join(kind.name for kind in kinds) or "nothing"
        raise QueryError(f"the query is {found}; allowed: {_ALLOWED}")


def _apart(names: Sequence[str]) -> list[str]:
    """Number the repetitions of a name, as DuckDB does in subqueries: ``run``, ``run_1``."""
    found: dict[str, None] = {}
    for name in names:
        each, number = name, 0
        while each in found:
            number += 1
            each = f"{name}_{number}"
        found[each] = None
    return list(found)


def _sentence(error: duckdb.Error) -> str:
    """Return DuckDB's message, with advice if the query needs too much memory."""
    if isinstance(error, duckdb.OutOfMemoryException):
        return f"the query needs more than {MEMORY} of memory: select fewer rows or columns, or group them"
    return str(error).strip()
