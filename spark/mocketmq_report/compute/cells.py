"""Cells: rows that have the same keys, and what they add up to."""

from collections.abc import Mapping
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from mocketmq_report.ledger.codes import Codes, joined, packed
from mocketmq_report.ledger.rows import Bools, Ints

LEAST: Final = np.iinfo(np.int64).min
MOST: Final = np.iinfo(np.int64).max


class Cells:
    """The cells of some rows, in no order; cells without rows are not there."""

    def __init__(self, *keys: Codes) -> None:
        self._of_rows, self._size = packed(joined(keys))

    @cached_property
    def count(self) -> Ints:
        """How many rows each cell has."""
        return np.bincount(self._of_rows, minlength=self._size)

    def keys(self, columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """What the rows of each cell have in columns in which they are alike."""
        rows = np.empty(self._size, np.int64)
        rows[self._of_rows] = np.arange(len(self._of_rows))
        return {name: column.take(pa.array(rows)) for name, column in columns.items()}

    def sum(self, values: Ints | Bools) -> Ints:
        """The sums of the rows' values."""
        sums = np.zeros(self._size, np.int64)
        np.add.at(sums, self._of_rows, values.astype(np.int64, copy=False))
        return sums

    def least(self, values: Ints) -> Ints:
        """The least of the rows' values."""
        least = np.full(self._size, MOST)
        np.minimum.at(least, self._of_rows, values)
        return least

    def most(self, values: Ints) -> Ints:
        """The greatest of the rows' values."""
        most = np.full(self._size, LEAST)
        np.maximum.at(most, self._of_rows, values)
        return most
