"""The first pass: from a ledger's rows, however many, to a summary, small tables that can be merged.

Each function reads only the columns that it needs, and groups them. Tables of several ledgers are merged by
a union: the second pass, ``lateness``, groups again and adds counts and sums. ``again`` and ``disorder`` must
see all rows of a store to be right. Forced deliveries are left out of everything that measures time.
"""

from collections.abc import Iterable
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from mocketmq.clock import US_PER_S
from mocketmq_report.compute import bins
from mocketmq_report.document import STAGES, Worst
from mocketmq_report.ledger.frames import DELIVERIES, LedgerFrames

STAGE_BITS: Final = 6
"""Bits of a bin of a stage: 64 bins for each power of two, so that a percentile is at most 1.6 % too high."""
WORST: Final = 20
_GROUP: Final = ("run", "scheme", "level")
_MESSAGE: Final = ("store", "parked_offset", "message_id", "attempt")
_BLOCK_BITS: Final = 20
"""Deliveries are put in order by blocks of a million offsets, or of a second."""


class Summary(NamedTuple):
    """The tables, by the names of the functions that make them."""

    outcomes: DataFrame
    again: DataFrame
    lateness: DataFrame
    timeline: DataFrame
    stages: DataFrame
    herds: DataFrame
    disorder: DataFrame
    worst: DataFrame


def outcomes(ledger: LedgerFrames) -> DataFrame:
    """Counts by run, scheme, level and ``state``, with first and last times and with what is overdue."""
    delivered = ledger.deliveries.where(F.col("state") == "delivered")
    others = _with_runs(ledger.deliveries.where(F.col("state") != "delivered"), ledger)
    return _union(
        rows.groupBy(*_GROUP, "state").agg(
            F.count("*").alias("rows"),
            F.count_if("forced").alias("forced"),
            F.count(overdue_us).alias("overdue"),
            F.min(overdue_us).alias("overdue_from_us"),
            F.min("delivered_us").alias("first_us"),
            F.max("delivered_us").alias("last_us"),
            F.min("due_us").alias("due_from_us"),
            F.max("due_us").alias("due_to_us"),
        )
        for rows, overdue_us in (
            (delivered, F.lit(None).cast("long")),
            (others, F.when(_is_overdue(), F.col("due_us"))),
        )
    )


def suspects(ledger: LedgerFrames) -> DataFrame:
    """Find where there are more rows than messages, by ``store`` and ``bucket`` of 64 neighbouring numbers.

    Grouping all rows by message would shuffle all of them. Here one mask stands for 64 messages, and only
    the rows of the buckets found need a closer look. The number of a message is its offset, or a hash of
    its id.
    """
    bit = F.expr("shiftleft(1L, cast(number & 63 as int))")
    masks = _union(
        rows.groupBy("run", _bucket().alias("bucket")).agg(
            F.count("*").alias("rows"), F.bit_or(bit).alias("mask")
        )
        for rows in _numbered(ledger)
    )
    return (
        _with_runs(masks, ledger)
        .groupBy("store", "bucket")
        .agg(F.sum("rows").alias("rows"), F.bit_or("mask").alias("mask"))
        .where(F.col("rows") > F.bit_count("mask"))
        .select("store", "bucket")
    )


def again(ledger: LedgerFrames, suspects: DataFrame) -> DataFrame:
    """The rows of messages that have several: with the same offset in a store, or the same id and attempt."""
    found = _union(
        _with_runs(rows, ledger)
        .withColumn("bucket", _bucket())
        .join(suspects, ["store", "bucket"], "left_semi")
        .select(*_GROUP, *_MESSAGE, "state", "forced", _is_overdue().alias("is_overdue"))
        for rows in _numbered(ledger)
    )
    rows = F.count("*").over(Window.partitionBy(*_MESSAGE))
    return found.withColumn("rows", rows).where(F.col("rows") > 1).drop("rows")


def lateness(ledger: LedgerFrames, key: Column) -> DataFrame:
    """Counts of measured deliveries by run, scheme, level, topic and ``value``, the key of the lateness."""
    return _union(_counts(rows, ("topic",), key) for rows in (_measured(ledger), _overdue(ledger)))


def minutes(ledger: LedgerFrames, key: Column) -> DataFrame:
    """As ``lateness``, and by ``minute_us``, the start of the minute of delivery, null if overdue."""
    minute = begin("delivered_us", 60 * US_PER_S).alias("minute_us")
    return _union(_counts(rows, ("topic", minute), key) for rows in (_measured(ledger), _overdue(ledger)))


def timeline(ledger: LedgerFrames, key: Column, step_us: int) -> DataFrame:
    """Counts of deliveries by ``at_us``, the start of their step, and ``value``."""
    return (
        _measured(ledger)
        .groupBy(begin("delivered_us", step_us).alias("at_us"), key.alias("value"))
        .agg(F.count("*").alias("count"), F.max("lateness_us").alias("most"))
    )


def stages(ledger: LedgerFrames) -> DataFrame:
    """Counts by scheme, level, ``stage`` and ``value``, separately for messages that have all stages.

    These bins are always coarse: six values per row in fine bins would make more groups than rows.
    """
    spans = {name: F.col(end) - F.col(begin) for name, (begin, end) in STAGES.items()}
    total = reduce(Column.__add__, spans.values())
    columns = [span.alias(name) for name, span in (*spans.items(), ("total", total))]
    coarse = bins.lowest(F.col("lateness_us"), STAGE_BITS)
    return (
        _measured(ledger)
        .select("scheme", "level", total.isNotNull().alias("is_complete"), *columns)
        .unpivot(["scheme", "level", "is_complete"], [*spans, "total"], "stage", "lateness_us")
        .where(F.col("lateness_us").isNotNull())
        .groupBy("scheme", "level", "stage", "is_complete", coarse.alias("value"))
        .agg(
            F.count("*").alias("count"),
            F.sum("lateness_us").alias("sum"),
            F.max("lateness_us").alias("most"),
        )
    )


def herds(ledger: LedgerFrames) -> DataFrame:
    """Deliveries of each run by the ``second`` in which they were due."""
    return (
        _measured(ledger)
        .groupBy("run", F.expr(f"due_us div {US_PER_S}L").alias("second"))
        .agg(
            F.count("*").alias("count"),
            F.sum("lateness_us").alias("sum"),
            F.max("lateness_us").alias("most"),
        )
    )


def disorder(ledger: LedgerFrames, due_from_us: int, due_to_us: int) -> DataFrame:
    """By run and level: ``deliveries``, and ``violations``, which came after one that was due later.

    Rows without offsets are ordered by the time of delivery, and those with the same time count as ordered.
    All due times lie between the two given. An offset's last bits and the due time are packed into one
    number, so that sorting a block needs only that; most blocks turn out to be in order of due time, too.
    """
    due_bits = (due_to_us - due_from_us).bit_length()
    bits = min(_BLOCK_BITS, 63 - due_bits)
    place = F.coalesce("delivered_offset", "delivered_us")
    packed = F.shiftleft(place.bitwiseAND((1 << bits) - 1), due_bits).bitwiseOR(F.col("due_us") - due_from_us)
    dues = F.transform("packed", lambda each: each.bitwiseAND((1 << due_bits) - 1))
    blocks = (
        _measured(ledger)
        .where((F.col("scheme") == "levels") & F.col("level").isNotNull())
        .groupBy("run", "level", F.shiftright(place, bits).alias("block"))
        .agg(
            F.min(place).alias("place"),
            (F.max("due_us") - due_from_us).alias("most"),
            F.sort_array(F.collect_list(packed)).alias("packed"),
        )
        .select("run", "level", "place", "most", dues.alias("dues"))
    )
    earlier = Window.partitionBy("store", "level").orderBy("place").rowsBetween(Window.unboundedPreceding, -1)
    behind = F.coalesce(F.max("most").over(earlier), F.lit(-1).cast("long"))
    in_order = (F.sort_array("dues") == F.col("dues")) & (F.col("dues")[0] >= F.col("behind"))
    return (
        _with_runs(blocks, ledger)
        .withColumn("behind", behind)
        .withColumn("violations", F.when(in_order, F.lit(0).cast("long")).otherwise(_violations()))
        .groupBy("run", "level")
        .agg(F.sum(F.size("dues")).alias("deliveries"), F.sum("violations").alias("violations"))
    )


def worst_times(ledger: LedgerFrames) -> DataFrame:
    """The ``due_us`` and ``lateness_us`` of the worst rows, which needs no other columns."""
    pairs = [rows.select("due_us", "lateness_us") for rows in (_measured(ledger), _overdue(ledger))]
    return _union(pairs).orderBy(F.desc("lateness_us"), "due_us").limit(WORST)


def worst(ledger: LedgerFrames, dues_us: list[int]) -> DataFrame:
    """The worst rows, given their due times, which let Spark skip files without such rows."""
    rows = ledger._replace(deliveries=ledger.deliveries.where(F.col("due_us").isin(dues_us)))
    columns = [name for name in DELIVERIES.names if name in Worst.__struct_fields__]
    return worst_of(
        _union(each.select(*columns, "lateness_us") for each in (_measured(rows), _overdue(rows)))
    )


def worst_of(rows: DataFrame) -> DataFrame:
    """The worst of these rows, the worst first."""
    return rows.orderBy(F.desc("lateness_us"), "due_us", "run", "message_id", "attempt").limit(WORST)


def _measured(ledger: LedgerFrames) -> DataFrame:
    """Deliveries that were not forced, with ``lateness_us``."""
    is_measured = (F.col("state") == "delivered") & ~F.col("forced")
    return ledger.deliveries.where(is_measured).withColumn(
        "lateness_us", F.col("delivered_us") - F.col("due_us")
    )


def _overdue(ledger: LedgerFrames) -> DataFrame:
    """Messages that should have been delivered, with their ``lateness_us`` so far."""
    waiting = ledger.deliveries.where(F.col("state").isin("pending", "lost"))
    return (
        _with_runs(waiting, ledger)
        .where(F.col("due_us") <= F.col("as_of_us"))
        .withColumn("lateness_us", F.col("as_of_us") - F.col("due_us"))
    )


def _counts(rows: DataFrame, by: Iterable[str | Column], key: Column) -> DataFrame:
    return rows.groupBy(*_GROUP, *by, key.alias("value")).agg(
        F.count("*").alias("count"),
        (F.count("*") - F.count("delivered_us")).alias("overdue"),
        F.sum("lateness_us").alias("sum"),
        F.min("lateness_us").alias("least"),
        F.max("lateness_us").alias("most"),
    )


def _numbered(ledger: LedgerFrames) -> tuple[DataFrame, DataFrame]:
    """Rows with the ``number`` of their message. If they have an offset, their id is null and never read."""
    rows, offset = ledger.deliveries, F.col("parked_offset")
    ids = {"message_id": F.lit(None).cast("string"), "attempt": F.lit(None).cast("int")}
    return (
        rows.where(offset.isNotNull()).withColumns({"number": offset, **ids}),
        rows.where(offset.isNull()).withColumn("number", F.xxhash64("message_id", "attempt")),
    )


def _bucket() -> Column:
    return F.shiftright("number", 6)


def _with_runs(rows: DataFrame, ledger: LedgerFrames) -> DataFrame:
    """Add the ``store`` and the ``as_of_us`` of the row's run."""
    return rows.join(F.broadcast(ledger.runs.select("run", "store", "as_of_us")), "run", "left")


def _is_overdue() -> Column:
    return F.coalesce((F.col("state") == "pending") & (F.col("due_us") <= F.col("as_of_us")), F.lit(False))


def begin(column: str, step_us: int) -> Column:
    """The start of the step that an instant lies in."""
    return F.col(column) - F.pmod(column, F.lit(step_us))


def _violations() -> Column:
    """How many of ``dues`` are less than an earlier one; ``behind`` is the greatest of earlier blocks."""
    start = F.struct(F.col("behind").alias("most"), F.lit(0).cast("long").alias("count"))

    def step(seen: Column, due: Column) -> Column:
        count = seen["count"] + F.when(due < seen["most"], 1).otherwise(0)
        return F.struct(F.greatest(seen["most"], due).alias("most"), count.cast("long").alias("count"))

    return F.aggregate("dues", start, step, lambda seen: seen["count"])


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)
