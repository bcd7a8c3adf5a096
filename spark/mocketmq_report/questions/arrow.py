"""The ledger as Arrow tables, for pandas, Polars, DuckDB and any other reader of Arrow."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from mocketmq_report.ledger.ledger import Ledger
from mocketmq_report.questions.ledger_tables import TableSelection, read_ledger, selection

PathLike = str | os.PathLike[str]


def read_arrow(
    *data: PathLike,
    table: str = "deliveries",
    columns: Sequence[str] | None = None,
    where: Iterable[tuple[str, str, Any]] = (),
) -> pa.Table:
    """Return a table of the ledger of some data directories, exports and files.

    ``table`` is ``deliveries``, ``runs``, ``moves`` or ``faults``. All conditions of ``where`` must hold,
    such as ``("level", "=", 3)``; operators are ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in``,
    ``is null`` and ``is not null``. Instants (``_us``) are epoch microseconds. The table is in memory: for a
    large ledger, give ``columns`` and ``where``, or use ``scan_arrow``.

    Raises InvalidArgumentError for an unknown table, column or operator, and BrokenLedgerError or StoreError
    if any of the data is unreadable.
    """
    with scan_arrow(*data, table=table, columns=columns, where=where) as batches:
        return batches.read_all()


def scan_arrow(
    *data: PathLike,
    table: str = "deliveries",
    columns: Sequence[str] | None = None,
    where: Iterable[tuple[str, str, Any]] = (),
) -> pa.RecordBatchReader:
    """Like ``read_arrow``, but return a reader, which keeps few rows in memory at a time."""
    selected = selection(table, columns, where)
    return reader(read_ledger([os.fspath(each) for each in data]), selected)


def reader(ledger: Ledger, selected: TableSelection) -> pa.RecordBatchReader:
    """Return a reader of the selected rows of a ledger."""
    return pa.RecordBatchReader.from_batches(selected.schema, _batches(ledger, selected))


def _batches(ledger: Ledger, selected: TableSelection) -> Iterator[pa.RecordBatch]:
    for part in selected.parts(ledger):
        yield from selected.batches(part)
