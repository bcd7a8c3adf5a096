"""Defines the columns of a ledger; Spark's schemas, exports and ``docs/ledger-format.md`` follow from them.

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
"""The value of a fact about a run that an external file lacks."""


class LedgerColumn(NamedTuple):
    """A column. The last two fields describe missing values, which only external files have."""

    name: str
    type: pa.DataType
    meaning: str
    without: str = "unknown"  # the meaning of a missing value, in words
    default: str | int | bool | None = None  # the default value


STATES: Final = ("delivered", "pending", "cancelled", "expired", "lost")

DELIVERY_COLUMNS: Final = (
    LedgerColumn(
        "run",
        _TEXT,
        "the broker's start, or the measurement, to which the row belongs",
        "the name of the file, without its ending",
    ),
    LedgerColumn(
        "state",
        _TEXT,
        "`delivered`; `pending`, even if overdue; `cancelled`; `expired`: removed before delivery by a reset,"
        " by retention, or by a crash that was set to lose it (`fault` is then `broker crash`); `lost`:"
        " disappeared for no such reason, a defect",
        "`delivered` if there is a `delivered_us`, else `pending`",
    ),
    LedgerColumn("message_id", _TEXT, "the UNIQ_KEY, the same for each delivery of a message", _DROPPED),
    LedgerColumn(
        "parked_offset",
        _LONG,
        "number of the delayed message in its store, the same for each of its deliveries",
        "the report tells messages apart by `message_id` and `attempt`",
    ),
    LedgerColumn("delivered_offset", _LONG, "number of the delivery in its store, in order of delivery"),
    LedgerColumn(
        "topic",
        _TEXT,
        "the topic to which the message is delivered; `%RETRY%group` for a retry",
        "no name",
        "",
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
    LedgerColumn("attempt", _INTEGER, "1 for the first delivery, one more for each retry", "`1`", 1),
    LedgerColumn("size", _INTEGER, "bytes of the body"),
    LedgerColumn(
        "forced",
        _BOOLEAN,
        "delivered on demand before the due time; its lateness does not count",
        "`false`",
        False,
    ),
    LedgerColumn("born_us", _LONG, "the producer's time stamp"),
    LedgerColumn("stored_us", _LONG, "when the broker had stored the message"),
    LedgerColumn("due_us", _LONG, "when the message should become visible", _DROPPED),
    LedgerColumn("picked_us", _LONG, "when the broker's timer had picked the message"),
    LedgerColumn("delivered_us", _LONG, "when the message became visible", "the message was not delivered"),
    LedgerColumn("pulled_us", _LONG, "when a consumer first received the message"),
    LedgerColumn("pulled_by", _TEXT, "the group of that consumer"),
    LedgerColumn("acked_us", _LONG, "when the message was first acknowledged"),
    LedgerColumn(
        "fault", _TEXT, "the fault injected into the delivery, or the crash that lost the message", "none"
    ),
    LedgerColumn("broker", _TEXT, "in a cluster, the broker that has the queue", "there is only one broker"),
)

RUN_COLUMNS: Final = (
    LedgerColumn("run", _TEXT, "UTC of its start, such as `20261121T003136.123456Z`"),
    LedgerColumn("store", _TEXT, "the first run of the same store: offsets count within a store"),
    LedgerColumn("source", _TEXT, "the file or directory of the run's data"),
    LedgerColumn("version", _TEXT, "the version of the broker"),
    LedgerColumn("host", _TEXT, "the broker's host"),
    LedgerColumn("profile", _TEXT, "how delays were timed, such as `exact` or `rocketmq4`"),
    LedgerColumn("clock", _TEXT, "`real`, `manual`, or a pace such as `x10`"),
    LedgerColumn("levels", _TEXT, "the table of levels: `1s 5s 10s …`"),
    LedgerColumn("durability", _TEXT, "what acknowledged messages survive: `full` or `normal`"),
    LedgerColumn("started_wall_us", _LONG, "start by the wall clock"),
    LedgerColumn("started_us", _LONG, "start by the broker's clock"),
    LedgerColumn("as_of_us", _LONG, "messages due by then and not delivered are overdue"),
)

MOVE_COLUMNS: Final = (
    LedgerColumn("run", _TEXT, "the run whose clock was moved"),
    LedgerColumn("wall_us", _LONG, "time of the move, by the wall clock"),
    LedgerColumn("from_us", _LONG, "the clock before the move"),
    LedgerColumn("to_us", _LONG, "the clock after the move"),
)

EVERY_REQUEST: Final = "every request"
"""The value of ``operation`` for an outage."""
STRUCK_COLUMNS: Final = (
    LedgerColumn("store", _TEXT, "the store that has the record"),
    LedgerColumn("at_us", _LONG, "when the fault was injected"),
    LedgerColumn("to_us", _LONG, "end of an outage or of a late response", "not yet known"),
    LedgerColumn("fault", _TEXT, "the name of the fault rule"),
    LedgerColumn("do", _TEXT, "what the fault did, such as `refuse` or `broker-away`"),
    LedgerColumn("operation", _TEXT, f"`receive`, `ack`, or `{EVERY_REQUEST}` for an outage"),
    LedgerColumn("topic", _TEXT, "the topic of the request"),
    LedgerColumn("group", _TEXT, "the consumer group of the request"),
)


def _schema(columns: Sequence[LedgerColumn]) -> pa.Schema:
    return pa.schema([(column.name, column.type) for column in columns])


DELIVERIES: Final = _schema(DELIVERY_COLUMNS)
OPTIONAL: Final = ("fault", "broker")
"""Columns that stores and exports of earlier versions lack."""
RUNS: Final = _schema(RUN_COLUMNS)
MOVES: Final = _schema(MOVE_COLUMNS)
STRUCK: Final = _schema(STRUCK_COLUMNS)
"""Requests of consumers into which faults were injected. Stores and exports of earlier versions have none."""


def as_rows(
    schema: pa.Schema, columns: Mapping[str, pa.Array | pa.ChunkedArray | pa.Scalar], rows: int
) -> pa.Table:
    """Make a table of ``rows`` rows. A scalar is repeated in each row; an omitted column is null.

    Raises pyarrow.ArrowInvalid for a number that does not fit its column.
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
