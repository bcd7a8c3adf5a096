"""Reads the rows of a ledger of any format in this process."""

from typing import Any

from mocketmq_report.compute.one_pass import measure
from mocketmq_report.document import Quality
from mocketmq_report.ledger import quality
from mocketmq_report.ledger.columns import DELIVERIES
from mocketmq_report.ledger.ledger import Columns, Ledger
from mocketmq_report.ledger.work import carry_here

ALL = Columns(DELIVERIES.names, ())


def rows_of(ledger: Ledger) -> list[dict[str, Any]]:
    """Return all rows of all parts, including unusable rows."""
    return [
        {name: row.get(name) for name in DELIVERIES.names}
        for part in ledger.parts
        for batch in part.batches(ALL)
        for row in batch.to_pylist()
    ]


def quality_of(ledger: Ledger) -> Quality:
    """Return the quality of the data, without broken sources."""
    summary = measure(ledger, carry_here, ()).summary
    return quality.quality(summary.faults, summary.odd)
