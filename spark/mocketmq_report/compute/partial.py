"""Partial tables: small aggregates of a part of the data, which merge into the aggregate of all data.

A row of a partial table aggregates all data rows with its keys. A data row is therefore a partial table too,
so the same operation makes and merges partial tables.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from mocketmq_report.compute.cells import LEAST, MOST, Cells
from mocketmq_report.ledger.codes import Codes, of_column, of_numbers, without_nulls
from mocketmq_report.ledger.rows import Ints

_COUNT: Final = "count"


_TYPES: Final = {
    **dict.fromkeys(
        (
            *("run", "scheme", "topic", "broker", "state", "stage", "reason"),
            *("name", "cause", "fault", "struck", "group"),
        ),
        pa.string(),
    ),
    "level": pa.int32(),
    "is_complete": pa.bool_(),
    "is_held": pa.bool_(),
}
"""Types of columns other than 64-bit numbers."""
_CODED: Final = pa.dictionary(pa.int32(), pa.string())


class Shape(NamedTuple):
    """The columns of a partial table: its keys, and the other columns grouped by how they merge."""

    keys: tuple[str, ...]
    sums: tuple[str, ...] = (_COUNT,)
    least: tuple[str, ...] = ()
    most: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """All columns, in order."""
        return [*self.keys, *self.sums, *self.least, *self.most]


def empty(shape: Shape) -> pa.Table:
    """Make a table of this shape without rows."""
    types = {name: _TYPES.get(name, pa.int64()) for name in shape.names}
    return pa.schema(list(types.items())).empty_table()


def coded(tables: Sequence[pa.Table], shape: Shape) -> pa.Table:
    """Join tables of one shape, and encode texts as codes, because codes merge faster."""
    return pa.concat_tables(_cast(table, shape, _coded) for table in tables)


def plain(table: pa.Table, shape: Shape) -> pa.Table:
    """Decode the texts of a table."""
    return _cast(table, shape, lambda text: text.cast(pa.string()))


def _cast(table: pa.Table, shape: Shape, text: Callable[[pa.ChunkedArray], pa.ChunkedArray]) -> pa.Table:
    types = {name: _TYPES.get(name, pa.int64()) for name in shape.names}
    columns = {
        name: text(table[name]) if kind == pa.string() else table[name].cast(kind)
        for name, kind in types.items()
    }
    return pa.table(columns)


def _coded(text: pa.ChunkedArray) -> pa.ChunkedArray:
    found = text if pa.types.is_dictionary(text.type) else text.cast(pa.string()).dictionary_encode()
    return found.cast(_CODED)


def merge(tables: Sequence[pa.Table], shape: Shape) -> pa.Table:
    """Merge tables of one shape into a table with one row for each combination of keys, in any order."""
    table = pa.concat_tables(table.select(shape.names) for table in tables).combine_chunks()
    columns = {name: _whole(table[name]) for name in shape.names}
    cells = Cells(*(_codes(columns[key]) for key in shape.keys))
    places = pa.array(cells.places)
    merged = {key: columns[key].take(places) for key in shape.keys}
    merged |= {name: pa.array(cells.sum(_filled(columns[name], 0))) for name in shape.sums}
    for names, find, none in ((shape.least, cells.least, MOST), (shape.most, cells.most, LEAST)):
        for name in names:
            found = find(_filled(columns[name], none))
            merged[name] = pa.array(found, mask=found == none)
    return pa.table(merged)


def _codes(column: pa.Array) -> Codes:
    is_number = pa.types.is_integer(column.type) and not column.null_count
    return of_numbers(column.to_numpy()) if is_number else of_column(column)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _filled(column: pa.Array, none: int) -> Ints:
    found: Ints = without_nulls(column.cast(pa.int64()), none)
    return found
