"""Cells: rows that have the same keys, and what they add up to."""

from functools import cached_property
from typing import Final

import numpy as np

from mocketmq_report.ledger.codes import Codes, joined, packed
from mocketmq_report.ledger.rows import Bools, Ints

LEAST: Final = np.iinfo(np.int64).min
MOST: Final = np.iinfo(np.int64).max
_FEW: Final = 4_096
"""So many cells may lack rows while they are added up; so may half as many as there are rows."""


class Cells:
    """The cells of some rows, in no order; cells without rows are not there."""

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
        """How many rows each cell has."""
        return self._counts[self._with_rows]

    @property
    def numbers(self) -> Ints:
        """The code of each cell, joined of those of its keys."""
        if self._size == self._joined.size:
            return self._with_rows
        found: Ints = self._joined.numbers[self.places]
        return found

    @cached_property
    def places(self) -> Ints:
        """Where one row of each cell is, which has the same keys as all others."""
        places = np.empty(self._size, np.int64)
        places[self._of_rows] = np.arange(len(self._of_rows))
        return places[self._with_rows]

    def sum(self, values: Ints | Bools) -> Ints:
        """The sums of the rows' values; of truths, how many hold."""
        if values.dtype == bool:
            return np.bincount(self._of_rows[values], minlength=self._size)[self._with_rows]
        sums = np.zeros(self._size, np.int64)
        np.add.at(sums, self._of_rows, values)
        return sums[self._with_rows]

    def least(self, values: Ints) -> Ints:
        """The least of the rows' values."""
        least = np.full(self._size, MOST)
        np.minimum.at(least, self._of_rows, values)
        return least[self._with_rows]

    def most(self, values: Ints) -> Ints:
        """The greatest of the rows' values."""
        most = np.full(self._size, LEAST)
        np.maximum.at(most, self._of_rows, values)
        return most[self._with_rows]
