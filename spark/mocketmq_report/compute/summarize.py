"""Run the first pass over a ledger, after a look at all rows for what its tables need to know."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from mocketmq_report.compute import summary
from mocketmq_report.compute.summary import Summary
from mocketmq_report.ledger.frames import LedgerFrames

_FEW: Final = 1_000_000
"""The most suspect buckets that are sent to every executor."""


class Extent(NamedTuple):
    """How many rows there are, and their first and last times, which are 0 if there are none."""

    rows: int
    delivered_from_us: int
    delivered_to_us: int
    due_from_us: int
    due_to_us: int


@contextmanager
def persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """Compute the frame at most once while this context lasts."""
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


def measure_extent(outcomes: Sequence[Row]) -> Extent:
    """The extent of a ledger, from the rows of ``summary.outcomes``."""
    return Extent(
        sum(row.rows for row in outcomes),
        min((row.first_us for row in outcomes if row.first_us is not None), default=0),
        max((row.last_us for row in outcomes if row.last_us is not None), default=0),
        min((row.due_from_us for row in outcomes), default=0),
        max((row.due_to_us for row in outcomes), default=0),
    )


@contextmanager
def summarized(
    ledger: LedgerFrames, outcomes: DataFrame, extent: Extent, key: Column, step_us: int
) -> Iterator[Summary]:
    """The summary of a ledger; repeats and the worst deliveries are looked for at once."""
    with persisted(summary.suspects(ledger)) as suspects:
        few = suspects.count() <= _FEW
        dues_us = [row.due_us for row in summary.worst_times(ledger).collect()]
        yield Summary(
            outcomes=outcomes,
            again=summary.again(ledger, F.broadcast(suspects) if few else suspects),
            lateness=summary.lateness(ledger, key),
            timeline=summary.timeline(ledger, key, step_us),
            stages=summary.stages(ledger),
            herds=summary.herds(ledger),
            disorder=summary.disorder(ledger, extent.due_from_us, extent.due_to_us),
            worst=summary.worst(ledger, dues_us),
        )
