"""The tables of a ledger, and the parts in which their rows are read."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from mocketmq.errors import InvalidArgumentError
from mocketmq_report.ledger import sources
from mocketmq_report.ledger.columns import DELIVERIES, MOVES, RUNS, STRUCK, as_rows
from mocketmq_report.ledger.conditions import RowCondition, checked, matching
from mocketmq_report.ledger.ledger import BrokenLedgerError, Columns, Ledger, LedgerPart, Loaded, narrowed
from mocketmq_report.ledger.places import is_here
from mocketmq_report.ledger.quality import UNREADABLE, faults
from mocketmq_report.ledger.rows import Rows

TABLES: Final[dict[str, pa.Schema]] = {
    "deliveries": DELIVERIES,
    "runs": RUNS,
    "moves": MOVES,
    "faults": STRUCK,
}


class TableSelection(NamedTuple):
    """A selection of columns of a table, and conditions on its rows."""

    table: str
    columns: tuple[str, ...]
    where: tuple[RowCondition, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        whole = TABLES[self.table]
        return pa.schema([whole.field(name) for name in self.columns])

    def parts(self, ledger: Ledger) -> list[LedgerPart]:
        """Return the parts of the ledger that may have matching rows."""
        if self.table == "deliveries":
            found = (narrowed(part, self.where) for part in ledger.parts)
            return [part for part in found if part is not None]
        table = {"runs": ledger.runs, "moves": ledger.moves, "faults": ledger.struck}[self.table]
        return [Loaded(table)] if table.num_rows else []

    def batches(self, part: LedgerPart) -> Iterator[pa.RecordBatch]:
        """Read the matching rows of a part. Raises StoreError and DamagedPartError."""
        whole = TABLES[self.table]
        names = dict.fromkeys((*self.columns, *(each.column for each in self.where)))
        read = pa.schema([whole.field(name) for name in names])
        for batch in part.batches(Columns([*dict.fromkeys((*names, "due_us"))], ())):  # never no column
            good = _usable(batch) if UNREADABLE in batch.schema.names else batch
            columns = {name: _plain(good[name]) for name in names if name in good.schema.names}
            for rows in as_rows(read, columns, good.num_rows).to_batches():
                found = matching(rows, self.where)
                if found.num_rows:
                    yield found.select(list(self.columns))


def selection(
    table: str = "deliveries",
    columns: Sequence[str] | None = None,
    where: Iterable[tuple[str, str, Any]] = (),
) -> TableSelection:
    """Check and make a selection. Raises InvalidArgumentError for a table or column that a ledger lacks."""
    if table not in TABLES:
        raise InvalidArgumentError("the table", table, ", ".join(TABLES))
    schema = TABLES[table]
    names = tuple(schema.names if columns is None else columns)
    for name in names:
        if name not in schema.names:
            raise InvalidArgumentError(f"a column of {table}", name, ", ".join(schema.names))
    return TableSelection(table, names, tuple(checked(*each, schema) for each in where))


def read_ledger(paths: Sequence[str]) -> Ledger:
    """Read local paths as one ledger, without its rows. Raises BrokenLedgerError if one is unreadable."""
    if there := [path for path in paths if not is_here(path)]:
        raise BrokenLedgerError(
            f"{there[0]} is not on this machine: allowed are local data directories, exports and files;"
            " copy it here, or read an export's Parquet files by Spark itself"
        )
    ledger, broken, _ = sources.read(paths)
    if broken:
        raise BrokenLedgerError("; ".join(f"{each.source}: {each.reason}" for each in broken))
    return ledger


def _usable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of an external file that a report would not drop."""
    return batch.filter(faults(Rows.of([batch])).is_null())


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
