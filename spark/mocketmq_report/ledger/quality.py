"""Assess the data: which rows cannot be used and why, and what is odd about the others.

A row is dropped when it would spoil the tables: it has no identity or no due time, an impossible instant, or
a state that its times contradict. Rows with stages in an impossible order are kept and counted: they come
from clocks that differ, and their lateness is still right.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from mocketmq.errors import RefusedError
from mocketmq_report.document import BrokenSource, Drop, Quality
from mocketmq_report.ledger.columns import DELIVERIES, STATES

UNREADABLE: Final = "unreadable"
"""An extra column of files from elsewhere: why a row could not be read, else null."""
MAX_DROPPED: Final = 0.01
"""The share of rows that may be dropped, by default."""

_END_US: Final = 253_402_300_800_000_000  # of the year 9999
_INSTANTS: Final = [name for name in DELIVERIES.names if name.endswith("_us")]


def fault(deliveries: DataFrame) -> Column:
    """The first reason to drop a row, in words; null if it is kept."""
    state, delivered_us = F.col("state"), F.col("delivered_us")
    reasons: list[tuple[Column, str | Column]] = [
        (_is_nothing("message_id"), "no message_id"),
        (F.col("due_us").isNull(), "no due_us"),
        (_is_nothing("run"), "no run"),
        (state.isNull() | ~state.isin(*STATES), f"state is none of {', '.join(STATES)}"),
        ((state == "delivered") & delivered_us.isNull(), "delivered without delivered_us"),
        ((state != "delivered") & delivered_us.isNotNull(), "delivered_us of what was not delivered"),
        *((F.col(name) < 0, f"{name} is negative") for name in _INSTANTS),
        *((F.col(name) >= _END_US, f"{name} is beyond the year 9999") for name in _INSTANTS),
    ]
    if UNREADABLE in deliveries.columns:
        reasons.insert(0, (F.col(UNREADABLE).isNotNull(), F.col(UNREADABLE)))
    return F.coalesce(*(F.when(condition, reason) for condition, reason in reasons))


def kept(deliveries: DataFrame, quality: Quality | None = None) -> DataFrame:
    """The rows that can be used. Nothing is filtered if ``quality`` has found that all can be."""
    if quality is None or quality.dropped:
        deliveries = deliveries.filter(fault(deliveries).isNull())
    return deliveries.drop(UNREADABLE)


def assess(deliveries: DataFrame, broken: Sequence[BrokenSource] = ()) -> Quality:
    """Count all rows, dropped ones and odd ones, in one pass."""
    odd = {"skewed": F.col("born_us") > F.col("stored_us"), **_disorder()}
    rows = (
        deliveries.select(
            fault(deliveries).alias("fault"), *(is_so.alias(name) for name, is_so in odd.items())
        )
        .groupBy("fault")
        .agg(F.count("*").alias("rows"), *(F.count_if(F.col(f"`{name}`")).alias(name) for name in odd))
        .collect()
    )
    counts = {row["fault"]: row.asDict() for row in rows}
    good = counts.pop(None, dict.fromkeys(["rows", *odd], 0))
    dropped = [Drop(reason=reason, rows=row["rows"]) for reason, row in counts.items()]
    return Quality(
        read=good["rows"] + sum(drop.rows for drop in dropped),
        kept=good["rows"],
        dropped=_most_first(dropped),
        skewed=good["skewed"],
        disorder=_most_first([Drop(reason=name, rows=good[name]) for name in _disorder() if good[name]]),
        broken=list(broken),
    )


def check(quality: Quality, max_dropped: float = MAX_DROPPED) -> None:
    """Raise RefusedError if all rows, or a share of more than ``max_dropped``, had to be dropped.

    An empty ledger is fine: a broker may have had nothing to delay.
    """
    gone = quality.read - quality.kept
    if gone <= max_dropped * quality.read and (quality.kept or not quality.read):
        return
    reasons = "; ".join(f"{drop.reason}: {drop.rows:,}" for drop in quality.dropped)
    allowed = f"at most {100 * max_dropped:.3g}% may be dropped" if quality.kept else "nothing is left"
    raise RefusedError(
        f"{gone:,} of {quality.read:,} rows ({gone / quality.read:.2%}) cannot be used, and {allowed}:"
        f" {reasons}"
    )


def _disorder() -> dict[str, Column]:
    """Orders of stages that are impossible if clocks agree. Forced deliveries may come early."""
    due, stored, picked = F.col("due_us"), F.col("stored_us"), F.col("picked_us")
    delivered, pulled, acked = F.col("delivered_us"), F.col("pulled_us"), F.col("acked_us")
    by_timer = ~F.coalesce(F.col("forced"), F.lit(False))
    return {
        "stored after due": (stored > due) & (F.col("scheme") == "levels"),
        "picked before due": (picked < due) & by_timer,
        "delivered before picked": delivered < picked,
        "pulled before delivered": pulled < delivered,
        "acknowledged before pulled": acked < pulled,
    }


def _is_nothing(name: str) -> Column:
    return F.col(name).isNull() | (F.col(name) == "")


def _most_first(drops: list[Drop]) -> list[Drop]:
    return sorted(drops, key=lambda drop: (-drop.rows, drop.reason))
