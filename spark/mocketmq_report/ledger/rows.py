"""Rows of a ledger as columns, in the form that the kernel uses."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mocketmq_report.ledger.codes import Codes, of_column, without_nulls
from mocketmq_report.ledger.columns import DELIVERIES

Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

NONE: Final = np.iinfo(np.int64).min
"""The value used for a missing number."""


@dataclass(eq=False, repr=False)
class Rows:
    """Rows with some columns of a ledger, or all. Text columns are kept as codes.

    Columns are converted lazily. Rows may be a selection of a ``whole`` at some ``places``; the selection
    reuses the converted columns of the whole.
    """

    _columns: Mapping[str, pa.Array]
    _length: int
    _whole: "Rows | None" = None
    _places: Ints | None = None

    def __post_init__(self) -> None:
        self._numbers: dict[str, Ints] = {}
        self._codes: dict[str, Codes] = {}

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> "Rows":
        """Join batches. Their columns may have different types than a ledger's columns."""
        table = pa.Table.from_batches(list(batches)).combine_chunks()
        columns = {}
        for name in table.column_names:
            chunks = table[name]
            if chunks.num_chunks == 1 and not chunks.chunk(0).offset:  # Arrow 18 fails on some offsets
                column = chunks.chunk(0)
            else:
                column = chunks.combine_chunks()
            if pa.types.is_dictionary(column.type):
                pass
            elif name in DELIVERIES.names:
                column = column.cast(DELIVERIES.field(name).type)
            if name in CODED and not pa.types.is_dictionary(column.type):
                column = column.dictionary_encode()
            columns[name] = column
        return cls(columns, table.num_rows)

    def __len__(self) -> int:
        return self._length

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def column(self, name: str) -> pa.Array:
        column = self._columns[name]
        return column if self._places is None else column.take(pa.array(self._places))

    def taken(self, at: Ints, *names: str) -> dict[str, pa.Array]:
        """Return some columns of the rows at these places."""
        places = pa.array(at if self._places is None else self._places[at])
        return {name: self._columns[name].take(places) for name in names}

    def numbers(self, name: str) -> Ints:
        """Return a column of numbers, with ``NONE`` for missing numbers."""
        if name not in self._numbers:
            if self._whole is None:
                self._numbers[name] = without_nulls(self._columns[name].cast(pa.int64()), NONE)
            else:
                self._numbers[name] = self._whole.numbers(name)[self._places]
        return self._numbers[name]

    def codes(self, name: str) -> Codes:
        if name not in self._codes:
            if self._whole is None:
                self._codes[name] = of_column(self._columns[name])
            else:
                numbers, size = self._whole.codes(name)
                self._codes[name] = Codes(numbers[self._places], size)
        return self._codes[name]

    def holds(self, name: str) -> Bools:
        """Return where a boolean column is true."""
        return _truths(self.column(name).fill_null(False))

    def lacks(self, name: str) -> Bools:
        """Return where a boolean column is false; a missing value is neither true nor false."""
        return ~_truths(self.column(name).fill_null(True))

    def looked_up(self, name: str, find: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
        """Apply ``find`` to a text column, calling it once for each distinct value."""
        if not self._length:
            return np.zeros(0, np.int64)
        numbers = self.codes(name).numbers
        values = [find(value) for value in self._columns[name].dictionary.to_pylist()]
        if numbers.max() == len(values):  # the highest code is that of null
            values.append(find(None))
        found: np.ndarray[Any, Any] = np.array(values)[numbers]
        return found

    def is_any(self, name: str, values: Sequence[str | None]) -> Bools:
        """Return where a column of text has one of the values."""
        found: Bools = self.looked_up(name, lambda value: value in values).astype(bool)
        return found

    def where(self, is_kept: Bools) -> "Rows":
        """Select the rows for which the condition holds."""
        at = np.flatnonzero(is_kept)
        if len(at) == len(self):
            return self
        return Rows(
            self._columns, len(at), self._whole or self, at if self._places is None else self._places[at]
        )

    def text(self, names: Sequence[str]) -> pa.Table:
        """Return some columns in the form of a ledger, without codes."""
        columns = {}
        for name in names:
            column = self.column(name)
            columns[name] = pc.cast(column, DELIVERIES.field(name).type)
        return pa.table(columns)


CODED: Final = ("run", "scheme", "topic", "state", "pulled_by", "fault", "broker")
"""Text columns with few different values."""


def _truths(column: pa.Array) -> Bools:
    found: Bools = column.to_numpy(zero_copy_only=False)
    return found
