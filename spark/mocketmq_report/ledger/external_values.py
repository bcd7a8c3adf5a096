"""Converts the values of an external file to rows of a ledger, with a reason for each unreadable row.

A *raw* value has its type in the file: text, a whole number, a double, or a boolean.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mocketmq_report.ledger.columns import DELIVERIES, DELIVERY_COLUMNS
from mocketmq_report.ledger.quality import UNREADABLE

ABOUT_RUN: Final = ("version", "host", "profile", "clock")
"""Columns of RUNS that an external file may have in each row."""
IN_MS: Final = {f"{name[:-3]}_ms": name for name in DELIVERIES.names if name.endswith("_us")}
"""Columns in milliseconds, with their names in a ledger."""
TYPES: Final[dict[str, pa.DataType]] = {
    **{field.name: field.type for field in DELIVERIES},
    **dict.fromkeys(IN_MS, pa.int64()),
    **dict.fromkeys(ABOUT_RUN, pa.string()),
}
"""The columns that a file may have, with their types."""
SAYS: Final = {
    pa.int64(): "a whole number of 64 bits",
    pa.int32(): "a whole number of 32 bits",
    pa.bool_(): "true or false",
    pa.string(): "text",
}
ROWS: Final = pa.schema(
    [*DELIVERIES, *(pa.field(name, pa.string()) for name in (UNREADABLE, *ABOUT_RUN, "source"))]
)
"""The columns of the converted rows."""

_DEFAULTS: Final = {column.name: column.default for column in DELIVERY_COLUMNS if column.default is not None}
_EXACT: Final = float(1 << 53)
"""Doubles are exact up to this whole number. Pandas writes whole numbers with gaps as doubles."""
_MOST: Final = {pa.int64(): (1 << 63) - 1, pa.int32(): (1 << 31) - 1}
_SURE_DIGITS: Final = 18  # a number with at most this many digits fits into 64 bits
_TRUTHS: Final = pa.array(["true", "t", "yes", "y", "1"])
_LIES: Final = pa.array(["false", "f", "no", "n", "0"])


def rows(
    raw: Mapping[str, pa.Array], count: int, said: pa.Array, runs: pa.Array, sources: pa.Array
) -> pa.RecordBatch:
    """Make rows of ``ROWS`` from ``count`` raw values of each known column that the file has.

    ``said`` has the known reasons why rows are unreadable, or null; ``runs`` and ``sources`` have the default
    run and the file of each row.
    """
    given = {name: _given(value) for name, value in raw.items()}
    for in_ms, in_us in IN_MS.items():
        if in_ms in given and in_us in given:
            both = pc.and_(given[in_ms].is_valid(), given[in_us].is_valid())
            said = _first(said, both, f"both {in_us} and {in_ms}")
    cells: dict[str, pa.Array] = {}
    for name, value in given.items():
        cell = _cell(value, TYPES[name])
        cells[name] = _in_us(cell) if name in IN_MS else cell
        lost = pc.and_(value.is_valid(), cells[name].is_null())
        said = _first(said, lost, f"{name} is not {SAYS[TYPES[name]]}")
    return pa.RecordBatch.from_arrays(
        [
            *_row(cells, count, runs).values(),
            said,
            *(cells.get(name, pa.nulls(count, pa.string())) for name in ABOUT_RUN),
            sources,
        ],
        schema=ROWS,
    )


def _first(said: pa.Array, is_so: pa.Array, reason: str) -> pa.Array:
    """Add a reason to rows that have none."""
    if not is_so.true_count:
        return said
    return pc.if_else(pc.and_(said.is_null(), is_so), reason, said)


def _given(value: pa.Array) -> pa.Array:
    """Return the values, with null for empty texts and for doubles that are not a number."""
    if pa.types.is_dictionary(value.type):
        value = value.cast(value.type.value_type)
    if pa.types.is_null(value.type):
        return value.cast(pa.string())
    if pa.types.is_floating(value.type):
        value = value.cast(pa.float64())
        return pc.if_else(pc.is_nan(value), None, value)
    if _is_text(value):
        text = pc.utf8_trim(value.cast(pa.string()), " ")
        return pc.if_else(pc.equal(text, ""), None, text)
    return value


def _cell(given: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert values to the type of their column; null for values that do not fit."""
    if wanted == pa.string():
        return given.cast(wanted)
    if pa.types.is_floating(given.type):
        is_whole = pc.and_(pc.equal(given, pc.floor(given)), pc.less_equal(pc.abs(given), _EXACT))
        given = pc.if_else(is_whole, given, None).cast(pa.int64())
    if wanted == pa.bool_():
        return _truths(given)
    numbers = _numbers(given) if _is_text(given) else given.cast(pa.int64())
    most = _MOST[wanted]
    if wanted != pa.int64():
        is_in = pc.and_(pc.less_equal(numbers, most), pc.greater_equal(numbers, -most - 1))
        numbers = pc.if_else(is_in, numbers, None)
    return numbers.cast(wanted)


def _truths(given: pa.Array) -> pa.Array:
    if pa.types.is_boolean(given.type):
        return given
    text = pc.utf8_lower(pc.utf8_trim_whitespace(given.cast(pa.string())))
    is_true, is_false = pc.is_in(text, _TRUTHS), pc.is_in(text, _LIES)
    if not _is_text(given):  # of all numbers, only 0 and 1 are booleans
        is_true, is_false = pc.equal(given, 1), pc.equal(given, 0)
    return pc.if_else(pc.or_(is_true, is_false), is_true, None)


def _numbers(text: pa.Array) -> pa.Array:
    """Convert texts to 64-bit numbers: all short texts at once, and long texts one by one."""
    is_plain = pc.and_(pc.ascii_is_decimal(text), pc.less_equal(pc.binary_length(text), _SURE_DIGITS))
    found = pc.if_else(is_plain, text, None).cast(pa.int64())
    places = np.flatnonzero(pc.invert(is_plain).fill_null(False).to_numpy(zero_copy_only=False))
    if not len(places):
        return found
    odd = pa.array([_number(each) for each in text.take(pa.array(places)).to_pylist()], pa.int64())
    is_odd = np.zeros(len(text), bool)
    is_odd[places] = True
    return pc.replace_with_mask(found, pa.array(is_odd), odd)


def _number(text: str) -> int | None:
    digits = text.strip().removeprefix("-" if text.strip()[:1] == "-" else "+")
    if not (digits.isascii() and digits.isdecimal()):
        return None
    number = int(text)
    return number if -_MOST[pa.int64()] - 1 <= number <= _MOST[pa.int64()] else None


def _in_us(milliseconds: pa.Array) -> pa.Array:
    """Convert milliseconds to microseconds; null if they do not fit into 64 bits."""
    most = _MOST[pa.int64()] // 1000
    is_in = pc.and_(pc.less_equal(milliseconds, most), pc.greater_equal(milliseconds, -most))
    return pc.multiply(pc.if_else(is_in, milliseconds, None), 1000)


def _row(cells: Mapping[str, pa.Array], count: int, runs: pa.Array) -> dict[str, pa.Array]:
    """Return the columns of DELIVERIES, with defaults for values that the file lacks."""
    row = {}
    for field in DELIVERIES:
        in_ms = field.name.removesuffix("_us") + "_ms"
        given = [cells[name] for name in (field.name, in_ms) if name in cells]
        default = pa.scalar(_DEFAULTS.get(field.name), field.type)
        row[field.name] = pc.coalesce(*given, pa.repeat(default, count))
    row["run"] = pc.coalesce(row["run"], runs)
    row["scheme"] = pc.coalesce(row["scheme"], pc.if_else(row["level"].is_null(), "absolute", "levels"))
    is_pending = row["delivered_us"].is_null()
    row["state"] = pc.coalesce(row["state"], pc.if_else(is_pending, "pending", "delivered"))
    return row


def _is_text(value: pa.Array) -> bool:
    return bool(pa.types.is_string(value.type) or pa.types.is_large_string(value.type))
