"""The columns of a ledger as the report reads it, whatever file it comes from.

One row of ``DELIVERIES`` is one delivery of a delayed message, or one delayed message that was not delivered.
All instants are epoch microseconds of the broker's clock.

================  ========================================================================================
run               the start of a broker that it belongs to, a row of ``RUNS``
state             ``delivered``; ``pending``: waits, or is overdue; ``cancelled``; ``expired``: removed
                  undelivered, by a reset or by retention; ``lost``: none of these, a defect
message_id        the message's UNIQ_KEY
parked_offset     number of the parked message in its store: a repeated delivery has the same one
delivered_offset  number of the delivery in its store, rising in order of delivery
topic, queue_id   where it was, or will be, delivered; ``%RETRY%group`` for a retry
queue_offset      its offset there
scheme, level     ``levels`` and the level's number; other schemes have no level
attempt           1, and one more for each time that a consumer gave it back
size              bytes of the body
forced            delivered by hand before it was due; its lateness means nothing
born_us           the producer's time stamp
stored_us         parked
due_us            when it should become visible
picked_us         when the timer had chosen it
delivered_us      when it became visible; null unless ``state`` is ``delivered``
pulled_us         first given to a consumer
pulled_by         the group of that consumer
acked_us          first acknowledged
================  ========================================================================================

Of a file from elsewhere ``due_us`` and ``message_id`` are needed, and ``delivered_us`` of what was delivered;
what else is not there is null, or what ``DEFAULTS`` says. ``due_ms`` stands for ``due_us`` and so on.
"""

from typing import Final, NamedTuple

from mocketmq.errors import EmulatorError
from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, IntegerType, LongType, StringType, StructField, StructType

STATES: Final = ("delivered", "pending", "cancelled", "expired", "lost")

DELIVERIES: Final = StructType(
    [
        StructField("run", StringType()),
        StructField("state", StringType()),
        StructField("message_id", StringType()),
        StructField("parked_offset", LongType()),
        StructField("delivered_offset", LongType()),
        StructField("topic", StringType()),
        StructField("queue_id", IntegerType()),
        StructField("queue_offset", LongType()),
        StructField("scheme", StringType()),
        StructField("level", IntegerType()),
        StructField("attempt", IntegerType()),
        StructField("size", IntegerType()),
        StructField("forced", BooleanType()),
        StructField("born_us", LongType()),
        StructField("stored_us", LongType()),
        StructField("due_us", LongType()),
        StructField("picked_us", LongType()),
        StructField("delivered_us", LongType()),
        StructField("pulled_us", LongType()),
        StructField("pulled_by", StringType()),
        StructField("acked_us", LongType()),
    ]
)

DEFAULTS: Final = {"topic": "", "scheme": "levels", "attempt": 1, "forced": False}
"""Of files from elsewhere. Without a ``level`` the scheme is ``absolute``; times tell the state."""

RUNS: Final = StructType(
    [
        StructField("run", StringType()),  # UTC of its start, such as 20261121T003136.123456Z
        StructField("store", StringType()),  # the first run of the same store: offsets are its own
        StructField("source", StringType()),  # the file or directory it was read from
        StructField("version", StringType()),
        StructField("host", StringType()),
        StructField("profile", StringType()),
        StructField("clock", StringType()),  # real, manual, xN; unknown for files from elsewhere
        StructField("levels", StringType()),  # 1s 5s 10s …
        StructField("durability", StringType()),
        StructField("started_wall_us", LongType()),
        StructField("started_us", LongType()),
        StructField("as_of_us", LongType()),  # what is not delivered by then, and due, is overdue
    ]
)

MOVES: Final = StructType(
    [
        StructField("run", StringType()),
        StructField("wall_us", LongType()),
        StructField("from_us", LongType()),
        StructField("to_us", LongType()),
    ]
)


class Ledger(NamedTuple):
    """What was read, from one place or many: frames of ``DELIVERIES``, ``RUNS`` and ``MOVES``."""

    deliveries: DataFrame
    runs: DataFrame
    moves: DataFrame


class BrokenLedgerError(EmulatorError):
    """A file or directory cannot be read as a ledger; the sentence says why, and what can be."""
