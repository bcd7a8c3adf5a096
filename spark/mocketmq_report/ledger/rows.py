"""Some rows of a ledger, column by column, as the kernel works on them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mocketmq_report.ledger.codes import Codes, of_column, without_nulls
from mocketmq_report.ledger.columns import DELIVERIES

Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

NONE: Final = np.iinfo(np.int64).min
"""Stands for a missing number."""


class Rows:
    """Rows with some columns of a ledger, or all. Columns of text are kept as codes.

    Nothing is done with a column before somebody asks for it. Rows may be some of a ``whole``, then they are
    at these ``places`` of it: what was made of a column of the whole need not be made again.
    """

    def __init__(
        self,
        columns: Mapping[str, pa.Array],
        length: int,
        whole: "Rows | None" = None,
        places: Ints | None = None,
    ) -> None:
        self._columns = columns
        self._length = length
        self._whole = whole
        self._places = places
        self._numbers: dict[str, Ints] = {}
        self._codes: dict[str, Codes] = {}

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> "Rows":
        """Join batches, whose columns may be of other types than those of a ledger."""
        table = pa.Table.from_batches(list(batches)).combine_chunks()
        columns = {}
        for name in table.column_names:
            chunks = table[name]
            if chunks.num_chunks == 1 and not chunks.chunk(0).offset:  # Arrow 18 fails at some with an offset
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
        """A column as one array."""
        column = self._columns[name]
        return column if self._places is None else column.take(pa.array(self._places))

    def taken(self, at: Ints, *names: str) -> dict[str, pa.Array]:
        """What some columns have in the rows at these places."""
        places = pa.array(at if self._places is None else self._places[at])
        return {name: self._columns[name].take(places) for name in names}

    def numbers(self, name: str) -> Ints:
        """A column of numbers, with ``NONE`` where there is none."""
        if name not in self._numbers:
            if self._whole is None:
                self._numbers[name] = without_nulls(self._columns[name].cast(pa.int64()), NONE)
            else:
                self._numbers[name] = self._whole.numbers(name)[self._places]
        return self._numbers[name]

    def codes(self, name: str) -> Codes:
        """The codes of a column."""
        if name not in self._codes:
            if self._whole is None:
                self._codes[name] = of_column(self._columns[name])
            else:
                numbers, size = self._whole.codes(name)
                self._codes[name] = Codes(numbers[self._places], size)
        return self._codes[name]

    def holds(self, name: str) -> Bools:
        """Whether a column of truths is true."""
        return _truths(self.column(name).fill_null(False))

    def lacks(self, name: str) -> Bools:
        """Whether a column of truths is false; where it is missing, it neither holds nor lacks."""
        return ~_truths(self.column(name).fill_null(True))

    def looked_up(self, name: str, find: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
        """What ``find`` returns for each value of a column of text, called once for each."""
        if not self._length:
            return np.zeros(0, np.int64)
        numbers = self.codes(name).numbers
        values = [find(value) for value in self._columns[name].dictionary.to_pylist()]
        if numbers.max() == len(values):  # the code of null
            values.append(find(None))
        found: np.ndarray[Any, Any] = np.array(values)[numbers]
        return found

    def is_any(self, name: str, values: Sequence[str | None]) -> Bools:
        """Whether a column of text has one of the values."""
        found: Bools = self.looked_up(name, lambda value: value in values).astype(bool)
        return found

    def where(self, is_kept: Bools) -> "Rows":
        """The rows for which this holds."""
        at = np.flatnonzero(is_kept)
        if len(at) == len(self):
            return self
        return Rows(
            self._columns, len(at), self._whole or self, at if self._places is None else self._places[at]
        )

    def text(self, names: Sequence[str]) -> pa.Table:
        """Some columns as they stand in a ledger."""
        columns = {}
        for name in names:
            column = self.column(name)
            columns[name] = pc.cast(column, DELIVERIES.field(name).type)
        return pa.table(columns)


CODED: Final = ("run", "scheme", "topic", "state", "pulled_by", "fault")
"""Columns of text with few different values."""


def _truths(column: pa.Array) -> Bools:
    found: Bools = column.to_numpy(zero_copy_only=False)
    return found
