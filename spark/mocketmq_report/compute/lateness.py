"""The second pass: from summaries of one ledger or many to the tables of the report.

Each function makes a table whose columns are the fields of a Struct in ``document``, without empty groups.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from mocketmq_report.compute import bins
from mocketmq_report.ledger.columns import STATES

COARSE: Final = 1
"""Bits of a bin of the heat map: two bins for each power of two."""

_GROUP: Final = ("dimension", "name")
_TICK_BITS: Final = 26
_TICKS: Final = [
    (1 << _TICK_BITS) - (8 - tick << _TICK_BITS - 3 >> halving) for halving in range(24) for tick in range(4)
] + [1 << _TICK_BITS]
"""Percentiles of a spectrum in units of 2^-``_TICK_BITS``: four for each halving of the distance to 100 %."""


def busiest(counts: DataFrame, most: int) -> DataFrame:
    """The names of the ``most`` topics with the most deliveries, in order."""
    rows = counts.groupBy("topic").agg(F.sum("count").alias("count"))
    return rows.orderBy(F.desc("count"), "topic").limit(most).select("topic")


def distributions(counts: DataFrame, runs: DataFrame, topics: Sequence[str]) -> DataFrame:
    """Counts by dimension, name and ``value``, with ranks. Only the given topics are groups."""
    profiles = F.broadcast(runs.select("run", "profile"))
    names = {
        **_names(),
        "profile": F.col("profile"),
        "topic": F.when(F.col("topic").isin(list(topics)), F.col("topic")),
        "run": F.col("run"),
    }
    grouped = (
        _by_dimension(counts.join(profiles, "run", "left"), names)
        .groupBy(*_GROUP, "value")
        .agg(
            F.min("least").alias("least"),
            F.max("most").alias("most"),
            *(F.sum(name).alias(name) for name in ("count", "overdue", "sum")),
        )
    )
    return bins.ranked(grouped, _GROUP)


def lateness(
    distributions: DataFrame, on_time_us: int, cutoffs_us: Sequence[int], percentiles: Sequence[float]
) -> DataFrame:
    """Rows of ``document.Lateness``; ``percentiles`` is an array in the given order."""
    measured = F.sum("count")
    on_time = _up_to(on_time_us)
    return distributions.groupBy(*_GROUP).agg(
        measured.alias("measured"),
        F.sum("overdue").alias("overdue"),
        F.sum(F.when(F.col("value") < 0, F.col("count")).otherwise(0)).alias("early"),
        on_time.alias("on_time"),
        (on_time / measured).alias("on_time_share"),
        F.min("least").alias("min_us"),
        (F.sum("sum") / measured).alias("mean_us"),
        F.max("most").alias("max_us"),
        F.array(*map(bins.percentile, percentiles)).alias("percentiles"),
        F.array(*map(_up_to, cutoffs_us)).alias("within"),
    )


def spectra(distributions: DataFrame) -> DataFrame:
    """The points of each ``document.Spectrum``: of the total, the levels and the schemes."""
    share = f"{1 << _TICK_BITS}L"
    nearest = f"greatest(1L, (total * tick + {share} - 1L) div {share})"
    ticks = F.array(*map(F.lit, _TICKS)).cast("array<long>")
    reached = F.expr(f"filter(ticks, tick -> {nearest} > upto - count AND {nearest} <= upto)")
    return (
        distributions.where(F.col("dimension").isin("total", "level", "scheme"))
        .withColumn("ticks", ticks)
        .withColumn("ticks", reached)
        .where(F.size("ticks") > 0)
        .withColumn("tick", F.explode(F.array_distinct(F.array(F.array_min("ticks"), F.array_max("ticks")))))
        .select(
            *_GROUP,
            (F.col("tick") * 100.0 / (1 << _TICK_BITS)).alias("percentile"),
            F.col("most").alias("value_us"),
            F.col("upto").alias("count"),
        )
    )


def reconciliation(outcomes: DataFrame, again: DataFrame, runs: DataFrame, on_time_us: int) -> DataFrame:
    """Rows of ``document.Reconciliation``: the rows of each group, less further rows of the same messages.

    A group is silent only if what it owes is late by more than ``on_time_us``: a running broker always
    owes something that was due a moment ago.
    """
    names = {**_names(), "run": F.col("run")}
    nothing_came = F.col("last_us").isNull() | (F.col("last_us") < F.col("overdue_from_us"))
    rows = (
        _by_dimension(
            outcomes.join(F.broadcast(runs.select("run", "store", "as_of_us")), "run", "left"), names
        )
        .groupBy(*_GROUP, "store")
        .agg(
            *(
                F.sum(F.when(F.col("state") == state, F.col("rows")).otherwise(0)).alias(state)
                for state in STATES
            ),
            F.sum("forced").alias("forced"),
            F.sum("overdue").alias("overdue"),
            F.min("overdue_from_us").alias("overdue_from_us"),
            F.max("last_us").alias("last_us"),
            F.max("as_of_us").alias("as_of_us"),
        )
        .withColumn(
            "is_silent",
            F.coalesce(
                (F.col("overdue_from_us") < F.col("as_of_us") - on_time_us) & nothing_came, F.lit(False)
            ),
        )
        .groupBy(*_GROUP)
        .agg(
            *(F.sum(name).alias(name) for name in (*STATES, "forced", "overdue")),
            F.bool_or("is_silent").alias("is_silent"),
        )
    )
    surplus = _surplus(_by_dimension(again, names))
    less = {
        name: F.col(name) - F.coalesce(F.col(f"surplus.{name}"), F.lit(0))
        for name in (*STATES, "forced", "overdue")
    }
    return (
        rows.join(surplus, list(_GROUP), "left")
        .select(*_GROUP, *(column.alias(name) for name, column in less.items()), "is_silent", "surplus")
        .withColumns(
            {
                "sent": F.expr(" + ".join(STATES)),
                "repeats": F.coalesce(F.col("surplus.repeats"), F.lit(0)),
            }
        )
        .drop("surplus")
    )


def _surplus(rows: DataFrame) -> DataFrame:
    """Count the surplus rows of messages that have several, as a struct ``surplus``.

    A message counts in the first of ``STATES`` that it has.
    """
    number = F.array_position(F.array(*map(F.lit, STATES)), F.col("state"))
    messages = (
        rows.withColumn("number", number)
        .groupBy(*_GROUP, "store", "parked_offset", "message_id", "attempt")
        .agg(
            F.min("number").alias("first"),
            *(F.count_if(F.col("state") == state).alias(state) for state in STATES),
            F.count_if("forced").alias("forced"),
            F.count_if("is_overdue").alias("overdue"),
        )
    )
    is_state = {state: F.col("first") == place for place, state in enumerate(STATES, start=1)}
    counts_once = {
        **is_state,
        "forced": F.col("forced") > 0,
        "overdue": is_state["pending"] & (F.col("overdue") > 0),
    }
    sums = [
        F.sum(F.col(name) - F.when(once, 1).otherwise(0)).alias(name) for name, once in counts_once.items()
    ]
    repeats = F.sum(F.greatest(F.col("delivered") - 1, F.lit(0))).alias("repeats")
    return (
        messages.groupBy(*_GROUP)
        .agg(*sums, repeats)
        .select(*_GROUP, F.struct(*counts_once, "repeats").alias("surplus"))
    )


def stages(counts: DataFrame) -> DataFrame:
    """Rows of ``document.Stage``."""
    group = (*_GROUP, "stage")
    complete = {name: F.when(F.col("is_complete"), F.col(name)).otherwise(0) for name in ("count", "sum")}
    grouped = (
        _by_dimension(counts, _names())
        .groupBy(*group, "value")
        .agg(
            F.sum("count").alias("count"),
            F.sum("sum").alias("sum"),
            F.max("most").alias("most"),
            F.sum(complete["count"]).alias("complete"),
            F.sum(complete["sum"]).alias("complete_sum_us"),
        )
    )
    return (
        bins.ranked(grouped, group)
        .groupBy(*group)
        .agg(
            F.sum("count").alias("count"),
            (F.sum("sum") / F.sum("count")).alias("mean_us"),
            bins.percentile(50).alias("p50_us"),
            bins.percentile(99).alias("p99_us"),
            F.max("most").alias("max_us"),
            F.sum("complete").alias("complete"),
            F.sum("complete_sum_us").alias("complete_sum_us"),
        )
    )


def instants(counts: DataFrame) -> DataFrame:
    """Rows of ``document.Instant``, from counts by ``at_us`` and ``value``."""
    grouped = counts.groupBy("at_us", "value").agg(F.sum("count").alias("count"), F.max("most").alias("most"))
    return (
        bins.ranked(grouped, ["at_us"])
        .groupBy("at_us")
        .agg(
            F.sum("count").alias("count"),
            bins.percentile(50).alias("p50_us"),
            bins.percentile(99).alias("p99_us"),
            F.max("most").alias("max_us"),
        )
    )


def cells(counts: DataFrame) -> DataFrame:
    """Rows of ``document.Cell``, from counts by ``at_us`` and ``value``."""
    low = bins.lowest(F.col("value"), COARSE).alias("low_us")
    cells = counts.groupBy("at_us", low).agg(F.sum("count").alias("count"))
    return cells.withColumn("high_us", bins.highest(F.col("low_us"), COARSE) + 1)


def herds(seconds: DataFrame) -> DataFrame:
    """Rows of ``document.Herd``, each for the seconds with a power of two, up to the next, of deliveries."""
    whole = seconds.groupBy("run", "second").agg(
        F.sum("count").alias("count"), F.sum("sum").alias("sum"), F.max("most").alias("most")
    )
    low = bins.lowest(F.col("count"), 0)
    return (
        whole.groupBy(low.alias("due_low"))
        .agg(
            F.count("*").alias("seconds"),
            F.sum("count").alias("deliveries"),
            (F.sum("sum") / F.sum("count")).alias("mean_us"),
            F.expr("percentile_disc(0.5) WITHIN GROUP (ORDER BY most)").cast("long").alias("p50_max_us"),
            F.max("most").alias("max_us"),
        )
        .withColumn("due_high", F.col("due_low") * 2 - 1)
    )


def disorder(levels: DataFrame) -> DataFrame:
    """Rows of ``document.Disorder``."""
    return levels.groupBy("run", "level").agg(
        F.sum("deliveries").alias("deliveries"), F.sum("violations").alias("violations")
    )


def _names() -> dict[str, Column]:
    """The name of a row's group in each dimension; null where it is in none."""
    return {
        "total": F.lit("total"),
        "level": F.col("level").cast("string"),
        "scheme": F.col("scheme"),
    }


def _by_dimension(rows: DataFrame, names: dict[str, Column]) -> DataFrame:
    """Repeat each row for every dimension in which it has a name."""
    groups = F.array(
        *(F.struct(F.lit(each).alias("dimension"), name.alias("name")) for each, name in names.items())
    )
    return (
        rows.withColumn("group", F.explode(groups))
        .withColumns({name: F.col(f"group.{name}") for name in _GROUP})
        .where(F.col("name").isNotNull())
        .drop("group")
    )


def _up_to(cutoff_us: int) -> Column:
    """How many are neither early nor later than this, as far as their bins tell."""
    is_within = (F.col("value") >= 0) & (F.col("most") <= cutoff_us)
    return F.sum(F.when(is_within, F.col("count")).otherwise(0))
