"""The columns of ``columns`` as Arrow has them, for what reads and writes a ledger without Spark."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

DELIVERIES: Final = pa.schema(
    [
        ("run", pa.string()),
        ("state", pa.string()),
        ("message_id", pa.string()),
        ("parked_offset", pa.int64()),
        ("delivered_offset", pa.int64()),
        ("topic", pa.string()),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("scheme", pa.string()),
        ("level", pa.int32()),
        ("attempt", pa.int32()),
        ("size", pa.int32()),
        ("forced", pa.bool_()),
        ("born_us", pa.int64()),
        ("stored_us", pa.int64()),
        ("due_us", pa.int64()),
        ("picked_us", pa.int64()),
        ("delivered_us", pa.int64()),
        ("pulled_us", pa.int64()),
        ("pulled_by", pa.string()),
        ("acked_us", pa.int64()),
    ]
)

RUNS: Final = pa.schema(
    [
        ("run", pa.string()),
        ("store", pa.string()),
        ("source", pa.string()),
        ("version", pa.string()),
        ("host", pa.string()),
        ("profile", pa.string()),
        ("clock", pa.string()),
        ("levels", pa.string()),
        ("durability", pa.string()),
        ("started_wall_us", pa.int64()),
        ("started_us", pa.int64()),
        ("as_of_us", pa.int64()),
    ]
)

MOVES: Final = pa.schema(
    [("run", pa.string()), ("wall_us", pa.int64()), ("from_us", pa.int64()), ("to_us", pa.int64())]
)


def as_rows(
    schema: pa.Schema, columns: Mapping[str, pa.Array | pa.ChunkedArray | pa.Scalar], rows: int
) -> pa.Table:
    """So many rows of this schema. A scalar stands in each of them, a column that is not given is null.

    Raises pyarrow.ArrowInvalid for a number that its column cannot hold.
    """
    return pa.Table.from_arrays(
        [_column(columns.get(field.name), field.type, rows) for field in schema], schema=schema
    )


def _column(
    given: pa.Array | pa.ChunkedArray | pa.Scalar | None, kind: pa.DataType, rows: int
) -> pa.ChunkedArray:
    if given is None:
        return pa.chunked_array([pa.nulls(rows, kind)])
    if isinstance(given, pa.Scalar):
        return pa.chunked_array([pa.repeat(given.cast(kind), rows)])
    return given.cast(kind)
