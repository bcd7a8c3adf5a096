"""A ledger's summary, and what must be known of all rows before it can be computed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from mocketmq_report.compute import summary
from mocketmq_report.compute.summary import Summary
from mocketmq_report.ledger.frames import LedgerFrames

_FEW: Final = 1_000_000
"""Buckets with more rows than messages, up to which every executor holds all of them."""


class Extent(NamedTuple):
    """How much there is, and from when to when; all times are 0 where there are none."""

    rows: int
    delivered_from_us: int
    delivered_to_us: int
    due_from_us: int
    due_to_us: int


@contextmanager
def persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """The frame, computed at most once while this is open."""
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


def measure_extent(outcomes: Sequence[Row]) -> Extent:
    """What the rows of ``summary.outcomes`` say."""
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
    """All tables of the ledger, of which the repeats and the worst are looked for already."""
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
