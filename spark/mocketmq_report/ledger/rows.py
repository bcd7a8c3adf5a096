"""Some rows of a ledger, column by column, as the kernel works on them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mocketmq_report.ledger.codes import Codes, of_column
from mocketmq_report.ledger.columns import DELIVERIES

Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

NONE: Final = np.iinfo(np.int64).min
"""Stands for a missing number."""


class Rows:
    """Rows with some columns of a ledger, or all. Columns of text are kept as codes.

    Nothing is done with a column before somebody asks for it.
    """

    def __init__(self, columns: Mapping[str, pa.Array], length: int) -> None:
        self._columns = columns
        self._length = length
        self._numbers: dict[str, Ints] = {}
        self._codes: dict[str, Codes] = {}

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> "Rows":
        """Join batches, whose columns may be of other types than those of a ledger."""
        table = pa.Table.from_batches(list(batches)).combine_chunks()
        columns = {}
        for name in table.column_names:
            column = table[name].combine_chunks()
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
        return self._columns[name]

    def numbers(self, name: str) -> Ints:
        """A column of numbers, with ``NONE`` where there is none."""
        if name not in self._numbers:
            column = self.column(name).cast(pa.int64())
            self._numbers[name] = (column.fill_null(NONE) if column.null_count else column).to_numpy()
        return self._numbers[name]

    def codes(self, name: str) -> Codes:
        """The codes of a column."""
        if name not in self._codes:
            self._codes[name] = of_column(self.column(name))
        return self._codes[name]

    def holds(self, name: str) -> Bools:
        """Whether a column of truths is true."""
        return _truths(self.column(name).fill_null(False))

    def lacks(self, name: str) -> Bools:
        """Whether a column of truths is false; where it is missing, it neither holds nor lacks."""
        return ~_truths(self.column(name).fill_null(True))

    def looked_up(self, name: str, find: Callable[[Any], Any]) -> np.ndarray[Any, Any]:
        """What ``find`` returns for each value of a column of text, called once for each."""
        column = self.column(name)
        if len(column) == 0:
            return np.zeros(0, np.int64)
        values = [find(value) for value in column.dictionary.to_pylist()]
        if column.null_count:
            values.append(find(None))
        found: np.ndarray[Any, Any] = np.array(values)[self.codes(name).numbers]
        return found

    def is_any(self, name: str, values: Sequence[str | None]) -> Bools:
        """Whether a column of text has one of the values."""
        found: Bools = self.looked_up(name, lambda value: value in values).astype(bool)
        return found

    def where(self, is_kept: Bools) -> "Rows":
        """The rows for which this holds."""
        length = int(np.count_nonzero(is_kept))
        return self if length == len(self) else Rows(_Kept(self._columns, is_kept), length)

    def text(self, names: Sequence[str]) -> pa.Table:
        """Some columns as they stand in a ledger."""
        columns = {}
        for name in names:
            column = self.column(name)
            columns[name] = pc.cast(column, DELIVERIES.field(name).type)
        return pa.table(columns)


CODED: Final = ("run", "scheme", "topic", "state", "pulled_by", "fault")
"""Columns of text with few different values."""


class _Kept(Mapping[str, pa.Array]):
    """Columns of which only some rows are kept."""

    def __init__(self, columns: Mapping[str, pa.Array], is_kept: Bools) -> None:
        self._columns = columns
        self._is_kept = pa.array(is_kept)
        self._found: dict[str, pa.Array] = {}

    def __getitem__(self, name: str) -> pa.Array:
        if name not in self._found:
            self._found[name] = self._columns[name].filter(self._is_kept)
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def _truths(column: pa.Array) -> Bools:
    found: Bools = column.to_numpy(zero_copy_only=False)
    return found
