"""Codes: one number per row for its values in some columns.

Grouping rows by one 64-bit number is several times as fast as by the keys themselves.
"""

from collections.abc import Iterable
from functools import reduce
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

Ints = np.ndarray[Any, np.dtype[np.int64]]

_MOST: Final = 1 << 62
"""Upper limit of codes, exclusive."""
_WIDE: Final = 1 << 32
"""Maximum width of a range in which a number's code is its distance from the least number."""
_ROOM: Final = 8
"""Number of entries allowed in a look-up table for each row, in addition to ``_LITTLE``."""
_LITTLE: Final = 1 << 16


class Codes(NamedTuple):
    """The code of each row. Rows with equal values, and no others, have equal codes."""

    numbers: np.ndarray[Any, Any]
    size: int  # all codes are below this number


def of_numbers(values: Ints) -> Codes:
    """Make the codes of numbers."""
    if not len(values):
        return Codes(values, 1)
    least = int(values.min())
    size = int(values.max()) - least + 1
    return Codes(values - least, size) if size <= _WIDE else of_column(pa.array(values))


def of_column(column: pa.Array) -> Codes:
    """Make the codes of a column. Null is a value like any other."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    null = len(column.dictionary)
    return Codes(without_nulls(column.indices, null), null + (column.null_count > 0))


def without_nulls(column: pa.Array, instead: int) -> np.ndarray[Any, Any]:
    """Replace each null of a column of whole numbers with a number; Arrow takes several times as long."""
    if not column.null_count:
        found: np.ndarray[Any, Any] = column.to_numpy()
        return found
    kind = column.type.to_pandas_dtype()
    values = np.frombuffer(column.buffers()[1], kind)[column.offset : column.offset + len(column)]
    return np.where(column.is_valid().to_numpy(zero_copy_only=False), values, kind(instead))


def joined(keys: Iterable[Codes]) -> Codes:
    """Combine the codes of several keys into one code for each row."""
    found = [*keys]
    if prod(each.size for each in found) > _most(len(found[0].numbers)):
        found = [packed(each) if each.size > _LITTLE else each for each in found]
    return reduce(_joined, found)


def packed(codes: Codes) -> Codes:
    """Renumber the codes without gaps."""
    numbers, size = codes
    if size > _most(len(numbers)):
        coded = pa.array(numbers).dictionary_encode()
        return Codes(coded.indices.to_numpy(), len(coded.dictionary))
    is_there = np.zeros(size, bool)
    is_there[numbers] = True
    there = np.flatnonzero(is_there)
    places = np.empty(size, np.int64)
    places[there] = np.arange(len(there))
    return Codes(places[numbers], len(there))


def _most(rows: int) -> int:
    """Return the maximum number of codes for which to build a look-up table."""
    return _ROOM * rows + _LITTLE


def _joined(left: Codes, right: Codes) -> Codes:
    if left.size == 1 or right.size == 1:  # a column with a single value needs no code of its own
        return right if left.size == 1 else left
    if left.size * right.size > _MOST:
        left, right = packed(left), packed(right)
    return Codes(left.numbers * np.int64(right.size) + right.numbers, left.size * right.size)
