"""Small tables that merge: a part of the data makes one of each, and tables of several parts add up to one.

A row of a partial table stands for all rows with its keys. So a row of the data is a partial table of its
own: making a partial table and merging several are the same work.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

_COUNT: Final = "count"


_TYPES: Final = {
    **dict.fromkeys(
        ("run", "scheme", "topic", "state", "stage", "reason", "name", "cause", "fault", "group"), pa.string()
    ),
    "level": pa.int32(),
    "is_complete": pa.bool_(),
}
"""Of columns that are no long numbers."""


class Shape(NamedTuple):
    """The columns of a partial table: its keys, and how each of the others is merged."""

    keys: tuple[str, ...]
    sums: tuple[str, ...] = (_COUNT,)
    least: tuple[str, ...] = ()
    most: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """All columns, in order."""
        return [*self.keys, *self.sums, *self.least, *self.most]


def empty(shape: Shape) -> pa.Table:
    """A table of a shape without rows."""
    types = {name: _TYPES.get(name, pa.int64()) for name in shape.names}
    return pa.schema(list(types.items())).empty_table()


def merge(tables: Sequence[pa.Table], shape: Shape) -> pa.Table:
    """Merge tables of one shape into one with a row for each of their keys, in no order."""
    table = pa.concat_tables(table.select(shape.names) for table in tables).combine_chunks()
    names: dict[str, pa.Array] = {}
    for place, key in enumerate(shape.keys):
        if not pa.types.is_integer(table[key].type) and not pa.types.is_boolean(table[key].type):
            encoded = coded(table[key])
            names[key] = encoded.dictionary
            table = table.set_column(place, key, encoded.indices)
    how = [
        *((name, "sum") for name in shape.sums),
        *((name, "min") for name in shape.least),
        *((name, "max") for name in shape.most),
    ]
    found = table.group_by(list(shape.keys), use_threads=False).aggregate(how)
    columns = {key: found[key] for key in shape.keys} | {name: found[f"{name}_{by}"] for name, by in how}
    for key, values in names.items():
        columns[key] = values.take(columns[key].combine_chunks())
    return pa.table({name: columns[name].cast(_TYPES.get(name, pa.int64())) for name in shape.names})


def coded(column: pa.ChunkedArray | pa.Array) -> pa.DictionaryArray:
    """The column as codes of its values, of which null is one if it occurs."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode("encode")
