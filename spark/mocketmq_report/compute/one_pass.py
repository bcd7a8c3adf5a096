"""Measures a ledger in one pass over all parts, and a second pass over the few parts that need it.

The first look runs the kernel on every part. The kernel turns a part's rows into small tables, which merge by
addition, and into clues for questions over all parts: which messages have rows in several batches, which
deliveries are out of order, which are the worst. The merged clues answer most questions; the second look
reads only the parts with open questions.

The plan of the first look uses the extent that the files declare. If the rows have another extent, the first
look runs again with the right plan.

A carrier runs the kernel: Spark on its executors, or a loop in this process.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from mocketmq.delay_limits import DelayLimits
from mocketmq_report.compute import limit_findings, order, outcomes, repeats, timeline, worst
from mocketmq_report.compute.kernel import BATCHES, Clues, FirstLook, KernelResult, KernelSettings, SecondLook
from mocketmq_report.compute.partial import merge
from mocketmq_report.compute.spans import SkippedTime
from mocketmq_report.compute.struck import strikes
from mocketmq_report.compute.summary import SHAPES, Summary, without_codes
from mocketmq_report.document import DelayLimitsFindings
from mocketmq_report.ledger.ledger import Extent, Ledger, LedgerPart
from mocketmq_report.ledger.work import Carrier
from mocketmq_report.on_time import DEFAULT_ON_TIME_US

EXACT_ROWS: Final = 1_000_000
"""Maximum number of rows for which percentiles are exact by default."""


class Measurements(NamedTuple):
    """The measurements of a ledger or of rollups."""

    summary: Summary
    again: pa.Table  # the rows of messages that have several rows
    worst: pa.Table
    is_exact: bool
    split_us: tuple[int, ...]  # limits after which bins are split
    step_us: int
    delay_limits: DelayLimitsFindings | None = None


def measure(
    ledger: Ledger,
    carry: Carrier,
    split_us: Sequence[int],
    is_exact: bool | None = None,
    minute_cutoffs_us: Sequence[int] | None = None,
    on_time_us: int = DEFAULT_ON_TIME_US,
    delay_limits: DelayLimits | None = None,
) -> Measurements:
    """Measure a ledger. Bins are split after each of ``split_us``.

    ``is_exact`` keeps every value instead of bins; None keeps them for up to ``EXACT_ROWS`` rows.
    ``minute_cutoffs_us`` adds lateness by minute. Deliveries later than ``on_time_us`` get a cause.
    ``delay_limits`` adds findings on how the system with these limits would have treated the delays.
    """
    runs = ledger.runs.to_pylist()
    stores = {run["run"]: run["store"] for run in runs}
    parts = dict(enumerate(ledger.parts))
    skipped = SkippedTime.of(ledger.moves, stores)
    struck = strikes(ledger.struck)

    def settings(extent: Extent) -> KernelSettings:
        exactly = extent.rows <= EXACT_ROWS if is_exact is None else is_exact
        return KernelSettings(
            stores,
            {run["run"]: run["as_of_us"] for run in runs},
            None if exactly else tuple(split_us),
            timeline.step_us(extent.delivered_to_us - extent.delivered_from_us),
            on_time_us,
            skipped,
            None if minute_cutoffs_us is None else tuple(minute_cutoffs_us),
            struck,
            delay_limits,
        )

    used = settings(ledger.extent)
    summary, clues, asked = carry(FirstLook(used), parts)
    right = settings(outcomes.extent(summary.outcomes))
    if right != used:  # unusable rows, or files without statistics, misled the plan
        used = right
        summary, clues, asked = carry(FirstLook(used), parts)
    found, more = _second_look(used, carry, parts, clues)
    again = _all(repeats.AGAIN, (found.again, *(each.again for each in clues.values())))
    summary = without_codes(summary)
    summary = summary._replace(disorder=merge([summary.disorder, more], SHAPES["disorder"]))
    return Measurements(
        summary,
        repeats.several(again),
        found.worst,
        is_exact=used.cutoffs_us is None,
        split_us=tuple(split_us),
        step_us=used.step_us,
        delay_limits=None
        if delay_limits is None
        else limit_findings.findings(delay_limits, asked, carry, parts),
    )


def _second_look(
    settings: KernelSettings, carry: Carrier, parts: Mapping[int, LedgerPart], clues: Mapping[int, Clues]
) -> tuple[KernelResult, pa.Table]:
    """Answer the open questions of the clues. Also returns further violations of order."""
    suspects = repeats.suspects(_all(repeats.SEEN, (each.seen for each in clues.values())))
    bound = worst.bound(_all(worst.TIMES, (each.times for each in clues.values())))
    stairs = _all(order.STAIRS, (each.stairs for each in clues.values()))
    violations, batches = order.settle(stairs, settings.stores)
    reaching = {part for part, clue in clues.items() if bound and worst.reaches(clue.times, bound)}
    wanted = reaching | {batch // BATCHES for batch in batches}
    if suspects.num_rows:
        wanted |= {part for part, clue in clues.items() if repeats.has_suspects(clue.seen, suspects)}
    last = len(parts) - 1  # higher numbers are pieces of the last part, which a carrier may divide
    reaching |= {min(part, last) for part in reaching}
    look = SecondLook(settings, suspects, bound, frozenset(reaching), frozenset(batches))
    chosen = {part: parts[part] for part in sorted({min(part, last) for part in wanted})}
    found = carry(look, chosen) if chosen else look.join([])
    if batches:
        in_part = pa.array(batches, pa.int64())
        rest = stairs.filter(pc.invert(pc.is_in(stairs["batch"], in_part)))
        violations, _ = order.settle(pa.concat_tables([rest, found.stairs]), settings.stores)
    return found, violations


def _all(schema: pa.Schema, tables: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *tables])
