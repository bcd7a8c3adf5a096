"""Groups rows into cells of equal keys, aggregates the cells, and names the groups of a report.

A report has the total, and the levels, schemes, profiles, topics, brokers and runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mocketmq_report.ledger.codes import Codes, joined, packed
from mocketmq_report.ledger.rows import Bools, Ints

LEAST: Final = np.iinfo(np.int64).min
MOST: Final = np.iinfo(np.int64).max
_FEW: Final = 4_096
"""Maximum size of a table of sums with empty cells; half the number of rows, if that is greater."""
Group = tuple[str, str]
"""A dimension, and the name of a group in it."""


class Cells:
    """The non-empty cells of some rows, in any order."""

    def __init__(self, *keys: Codes) -> None:
        codes = self._joined = joined(keys)
        if codes.size > max(_FEW, len(codes.numbers) // 2):
            codes = packed(codes)
        self._of_rows, self._size = codes.numbers.astype(np.int64, copy=False), codes.size

    @cached_property
    def _counts(self) -> Ints:
        return np.bincount(self._of_rows, minlength=self._size)

    @cached_property
    def _with_rows(self) -> Ints:
        return np.flatnonzero(self._counts)

    @property
    def count(self) -> Ints:
        return self._counts[self._with_rows]

    @property
    def numbers(self) -> Ints:
        """The code of each cell, combined from the codes of its keys."""
        if self._size == self._joined.size:
            return self._with_rows
        found: Ints = self._joined.numbers[self.places]
        return found

    @cached_property
    def places(self) -> Ints:
        """The index of one row of each cell; all rows of a cell have the same keys."""
        places = np.empty(self._size, np.int64)
        places[self._of_rows] = np.arange(len(self._of_rows))
        return places[self._with_rows]

    def sum(self, values: Ints | Bools) -> Ints:
        """Return the sums of the rows' values; for booleans, the number of true values."""
        if values.dtype == bool:
            return np.bincount(self._of_rows[values], minlength=self._size)[self._with_rows]
        sums = np.zeros(self._size, np.int64)
        np.add.at(sums, self._of_rows, values)
        return sums[self._with_rows]

    def least(self, values: Ints) -> Ints:
        least = np.full(self._size, MOST)
        np.minimum.at(least, self._of_rows, values)
        return least[self._with_rows]

    def most(self, values: Ints) -> Ints:
        most = np.full(self._size, LEAST)
        np.maximum.at(most, self._of_rows, values)
        return most[self._with_rows]


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
