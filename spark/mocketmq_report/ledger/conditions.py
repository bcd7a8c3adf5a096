"""Conditions on the rows of a ledger, which readers apply as early as they can.

A condition is exact when it is applied to rows (``mask``). Before that, it lets a store skip other deliveries
(``in_sqlite``), and an export skip row groups in which no value can match (``may_match``).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mocketmq.errors import InvalidArgumentError

_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
OPERATORS: Final = (*_COMPARISONS, "in", "is null", "is not null")
_MOST_VALUES: Final = 1_000
"""Maximum number of values of an ``in``."""
_KINDS: Final[dict[pa.DataType, type]] = {
    pa.string(): str,
    pa.int64(): int,
    pa.int32(): int,
    pa.bool_(): bool,
}
_LONGS: Final = range(-(1 << 63), 1 << 63)
_AS_STORED: Final = {
    **{name: name for name in ("topic", "queue_id", "queue_offset", "scheme", "level", "attempt", "size")},
    **{name: name for name in ("parked_offset", "delivered_offset", "pulled_by")},
    **{f"{name}_us": f"{name}_us" for name in ("born", "stored", "due", "picked", "delivered", "pulled")},
    "acked_us": "acked_us",
    "message_id": "unique_key",
}
"""Columns with the same values in a store's table ``deliveries``, and their names there."""


class RowCondition(NamedTuple):
    """A comparison of a column with a value. Like in SQL, only ``is null`` is true of a missing value."""

    column: str
    operator: str
    value: Any = None  # a sequence for ``in``; ignored by ``is null`` and ``is not null``

    def mask(self, rows: pa.RecordBatch) -> pa.Array:
        """Return where the condition holds, with null for missing values."""
        column = rows[self.column]
        if column.type == pa.int32():
            column = column.cast(pa.int64())  # the condition's value may not fit into 32 bits
        match self.operator:
            case "is null":
                return pc.is_null(column)
            case "is not null":
                return pc.is_valid(column)
            case "in":
                found = pc.is_in(column, pa.array(self.value, column.type))
                return pc.if_else(pc.is_valid(column), found, None)
        return _COMPARISONS[self.operator](column, pa.scalar(self.value, column.type))

    def in_sqlite(self) -> str | None:
        """Return the condition as SQL on a store's ``deliveries``; None if the store keeps other values."""
        name = _AS_STORED.get(self.column)
        if name is None:
            return None
        if self.operator.startswith("is "):
            return f"{name} {self.operator}"
        if self.operator == "in":
            values = [_literal(value) for value in self.value]
            return None if None in values else f"{name} IN ({', '.join(map(str, values))})"
        value = _literal(self.value)
        return None if value is None else f"{name} {self.operator} {value}"

    def may_match(self, known: pq.Statistics | None) -> bool:
        """Return whether a value of a row group may match, by the group's statistics of the column."""
        if known is None:
            return True
        if self.operator == "is null":
            return not known.has_null_count or bool(known.null_count)
        if not known.has_min_max:
            return bool(known.num_values)  # without values, none matches
        if isinstance(known.min, bytes):
            return True
        match self.operator:
            case "=":
                return bool(known.min <= self.value <= known.max)
            case "in":
                return any(known.min <= value <= known.max for value in self.value)
            case "<" | "<=" | ">" | ">=":
                extreme = known.min if self.operator[0] == "<" else known.max
                return bool(_COMPARISONS[self.operator](extreme, self.value).as_py())
        return True


def checked(column: str, operator: str, value: Any, schema: pa.Schema) -> RowCondition:
    """Make a condition on a table. Raises InvalidArgumentError if the table or a column does not allow it."""
    if column not in schema.names:
        raise InvalidArgumentError("the column of a condition", column, ", ".join(schema.names))
    if operator not in OPERATORS:
        raise InvalidArgumentError(f"the operator of {column}", operator, ", ".join(OPERATORS))
    if not operator.startswith("is "):
        many = operator == "in"
        values = list(value) if many and isinstance(value, (list, tuple, set, frozenset)) else [value]
        kind = _KINDS[schema.field(column).type]
        if not all(_is_of(kind, each) for each in values) or len(values) > _MOST_VALUES:
            allowed = f"a list of at most {_MOST_VALUES:,} values" if many else "a value"
            raise InvalidArgumentError(f"the value of {column}", value, f"{allowed} of type {kind.__name__}")
        return RowCondition(column, operator, values if many else value)
    return RowCondition(column, operator)


def matching(rows: pa.RecordBatch, conditions: Sequence[RowCondition]) -> pa.RecordBatch:
    """Return the rows for which all conditions hold."""
    for condition in conditions:
        rows = rows.filter(condition.mask(rows))
    return rows


def _is_of(kind: type, value: object) -> bool:
    return type(value) is kind and (kind is not int or value in _LONGS)


def _literal(value: str | int) -> str | None:
    """Return a value as SQL; None for a text that SQL cannot express."""
    if isinstance(value, int):
        return str(value)
    quoted = value.replace("'", "''")
    return None if "\0" in value else f"'{quoted}'"
