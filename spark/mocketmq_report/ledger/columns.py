"""The columns of a ledger, described once: Spark's schemas, exports and ``docs/ledger-format.md`` follow.

A row of ``DELIVERIES`` is one delivery of a delayed message, or one delayed message that was not delivered;
a row of ``RUNS`` is one start of a broker, and a row of ``MOVES`` one move of its clock. Columns whose names
end in ``_us`` are epoch microseconds by the broker's clock, or by the wall clock if the name says ``wall``.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

_TEXT: Final = pa.string()
_LONG: Final = pa.int64()
_INTEGER: Final = pa.int32()
_BOOLEAN: Final = pa.bool_()

_DROPPED: Final = "the row is dropped"

UNKNOWN: Final = "unknown"
"""Stands for facts about a run that a file from elsewhere lacks."""


class LedgerColumn(NamedTuple):
    """A column. The last two fields are for files from elsewhere, which may lack columns and values."""

    name: str
    type: pa.DataType
    meaning: str
    without: str = "unknown"  # what it means, in words, that there is no value
    default: str | int | bool | None = None  # the value to take then


STATES: Final = ("delivered", "pending", "cancelled", "expired", "lost")

DELIVERY_COLUMNS: Final = (
    LedgerColumn(
        "run",
        _TEXT,
        "the start of a broker, or the measurement, to which the row belongs",
        "the name of the file, without its ending",
    ),
    LedgerColumn(
        "state",
        _TEXT,
        "`delivered`; `pending`: waits, or is overdue; `cancelled`; `expired`: removed undelivered, by a"
        " reset or by retention; `lost`: none of these, a defect",
        "`delivered` if there is a `delivered_us`, else `pending`",
    ),
    LedgerColumn("message_id", _TEXT, "the UNIQ_KEY, the same in each delivery of a message", _DROPPED),
    LedgerColumn(
        "parked_offset",
        _LONG,
        "number of the delayed message in its store, the same in each of its deliveries",
        "messages are told apart by `message_id` and `attempt`",
    ),
    LedgerColumn("delivered_offset", _LONG, "number of the delivery in its store, in order of delivery"),
    LedgerColumn(
        "topic", _TEXT, "where it was, or will be, delivered; `%RETRY%group` for a retry", "no name", ""
    ),
    LedgerColumn("queue_id", _INTEGER, "the queue of the topic"),
    LedgerColumn("queue_offset", _LONG, "the offset in that queue"),
    LedgerColumn(
        "scheme",
        _TEXT,
        "`levels`, or the name of another delay scheme",
        "`levels` with a level, else `absolute`",
    ),
    LedgerColumn("level", _INTEGER, "number of the delay level; only the scheme `levels` has one", "none"),
    LedgerColumn("attempt", _INTEGER, "1, and one more for each time that a consumer gave it back", "`1`", 1),
    LedgerColumn("size", _INTEGER, "bytes of the body"),
    LedgerColumn(
        "forced",
        _BOOLEAN,
        "delivered by hand before it was due; its lateness means nothing",
        "`false`",
        False,
    ),
    LedgerColumn("born_us", _LONG, "the producer's time stamp"),
    LedgerColumn("stored_us", _LONG, "when the broker had stored it"),
    LedgerColumn("due_us", _LONG, "when it should become visible", _DROPPED),
    LedgerColumn("picked_us", _LONG, "when the broker's timer had chosen it"),
    LedgerColumn("delivered_us", _LONG, "when it became visible", "it was not delivered"),
    LedgerColumn("pulled_us", _LONG, "when it was first given to a consumer"),
    LedgerColumn("pulled_by", _TEXT, "the group of that consumer"),
    LedgerColumn("acked_us", _LONG, "when it was first acknowledged"),
    LedgerColumn("fault", _TEXT, "the fault on purpose that struck it", "none"),
)

RUN_COLUMNS: Final = (
    LedgerColumn("run", _TEXT, "UTC of its start, such as `20261121T003136.123456Z`"),
    LedgerColumn("store", _TEXT, "the first run of the same store: offsets count within a store"),
    LedgerColumn("source", _TEXT, "the file or directory from which it was read"),
    LedgerColumn("version", _TEXT, "the version of the broker"),
    LedgerColumn("host", _TEXT, "where it ran"),
    LedgerColumn("profile", _TEXT, "how delays were timed, such as `exact` or `rocketmq4`"),
    LedgerColumn("clock", _TEXT, "`real`, `manual`, or a pace such as `x10`"),
    LedgerColumn("levels", _TEXT, "the table of levels: `1s 5s 10s …`"),
    LedgerColumn("durability", _TEXT, "what acknowledged messages survive: `full` or `normal`"),
    LedgerColumn("started_wall_us", _LONG, "when it started, by the wall clock"),
    LedgerColumn("started_us", _LONG, "when it started, by its own clock"),
    LedgerColumn("as_of_us", _LONG, "what is due by then and not delivered is overdue"),
)

MOVE_COLUMNS: Final = (
    LedgerColumn("run", _TEXT, "the run whose clock was moved"),
    LedgerColumn("wall_us", _LONG, "when, by the wall clock"),
    LedgerColumn("from_us", _LONG, "from this instant"),
    LedgerColumn("to_us", _LONG, "to this one"),
)

EVERY_REQUEST: Final = "every request"
"""What an absence strikes."""
STRUCK_COLUMNS: Final = (
    LedgerColumn("store", _TEXT, "the store in which it is recorded"),
    LedgerColumn("at_us", _LONG, "when the fault struck"),
    LedgerColumn("to_us", _LONG, "until when somebody was away, or an answer was late", "not known yet"),
    LedgerColumn("fault", _TEXT, "the name of its rule"),
    LedgerColumn("do", _TEXT, "what it did, such as `refuse` or `broker-away`"),
    LedgerColumn("operation", _TEXT, f"`receive`, `ack`, or of an absence `{EVERY_REQUEST}`"),
    LedgerColumn("topic", _TEXT, "that was asked for"),
    LedgerColumn("group", _TEXT, "that asked"),
)


def _schema(columns: Sequence[LedgerColumn]) -> pa.Schema:
    return pa.schema([(column.name, column.type) for column in columns])


DELIVERIES: Final = _schema(DELIVERY_COLUMNS)
OPTIONAL: Final = ("fault",)
"""Columns that stores and exports of earlier versions lack."""
RUNS: Final = _schema(RUN_COLUMNS)
MOVES: Final = _schema(MOVE_COLUMNS)
STRUCK: Final = _schema(STRUCK_COLUMNS)
"""Requests of consumers that faults struck. Stores and exports of earlier versions have none."""


def as_rows(
    schema: pa.Schema, columns: Mapping[str, pa.Array | pa.ChunkedArray | pa.Scalar], rows: int
) -> pa.Table:
    """Make a table of ``rows`` rows. A scalar is repeated in each row; a column that is not given is null.

    Raises pyarrow.ArrowInvalid for a number that its column cannot hold.
    """
    return pa.Table.from_arrays(
        [_array(columns.get(field.name), field.type, rows) for field in schema], schema=schema
    )


def _array(
    given: pa.Array | pa.ChunkedArray | pa.Scalar | None, kind: pa.DataType, rows: int
) -> pa.ChunkedArray:
    if given is None:
        return pa.chunked_array([pa.nulls(rows, kind)])
    if isinstance(given, pa.Scalar):
        return pa.chunked_array([pa.repeat(given.cast(kind), rows)])
    return given.cast(kind)
