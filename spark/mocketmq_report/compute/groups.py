"""The groups of a report: the total, and the levels, schemes, profiles, topics, brokers and runs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Group = tuple[str, str]
"""A dimension, and the name of a group in it."""


def by_dimension(table: pa.Table, dimension: str) -> pa.Table:
    """Add the ``name`` of each row's group. Rows without a group, such as a level, are left out."""
    if dimension == "total":
        return table.append_column("name", pa.repeat("total", table.num_rows))
    named = table.append_column("name", table[dimension].cast(pa.string()))
    return named.filter(pc.is_valid(named["name"]))


def groups_of(row: Mapping[str, Any], dimensions: Sequence[str]) -> Iterator[Group]:
    """Return the groups of one row."""
    for dimension in dimensions:
        if dimension == "total":
            yield dimension, dimension
        elif row[dimension] is not None:
            yield dimension, str(row[dimension])
