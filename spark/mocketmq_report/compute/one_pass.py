"""Measure a ledger in one pass, with a second look at a few of its parts.

The first look runs the kernel on every part. It turns the rows of a part into small tables that merge by
adding up, plus clues on questions that only all parts together can answer: which messages have rows in
several batches, which deliveries are out of order, which are the worst. Merging the clues settles most
questions; the second look reads only the parts that hold the rest.

The first look is planned from the extent that the files declare. If the rows show another extent, it runs
again with the right plan.

A carrier runs the kernel: Spark on its executors, or a loop in this process.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from mocketmq.clock import US_PER_MS
from mocketmq.contracts.contract import Contract
from mocketmq_report.compute import contracted, order, outcomes, repeats, timeline, worst
from mocketmq_report.compute.kernel import BATCHES, Clues, FirstLook, KernelResult, SecondLook, Setting
from mocketmq_report.compute.partial import merge
from mocketmq_report.compute.struck import strikes
from mocketmq_report.compute.summary import SHAPES, Summary, without_codes
from mocketmq_report.document import ContractFindings
from mocketmq_report.ledger.ledger import Extent, Ledger, Part
from mocketmq_report.ledger.work import Carrier

EXACT_ROWS: Final = 1_000_000
"""Largest number of rows for which percentiles are exact by default."""


class Measured(NamedTuple):
    """The measurements of a ledger or of rollups."""

    summary: Summary
    again: pa.Table  # the rows of messages that have several
    worst: pa.Table
    is_exact: bool
    split_us: tuple[int, ...]  # the limits after which bins are split
    step_us: int
    contract: ContractFindings | None = None


def measure(
    ledger: Ledger,
    carry: Carrier,
    split_us: Sequence[int],
    is_exact: bool | None = None,
    minute_cutoffs_us: Sequence[int] | None = None,
    on_time_us: int = 100 * US_PER_MS,
    contract: Contract | None = None,
) -> Measured:
    """Measure a ledger. Bins are split after each of ``split_us``.

    ``is_exact`` keeps every value instead of bins; None does so up to ``EXACT_ROWS``. ``minute_cutoffs_us``
    adds lateness by minute. Deliveries later than ``on_time_us`` get a cause. A ``contract`` adds how another
    system would have treated the delays.
    """
    runs = ledger.runs.to_pylist()
    parts = dict(enumerate(ledger.parts))
    struck = strikes(ledger.struck)

    def setting(extent: Extent) -> Setting:
        exactly = extent.rows <= EXACT_ROWS if is_exact is None else is_exact
        return Setting(
            {run["run"]: run["store"] for run in runs},
            {run["run"]: run["as_of_us"] for run in runs},
            None if exactly else tuple(split_us),
            timeline.step_us(extent.delivered_to_us - extent.delivered_from_us),
            on_time_us,
            None if minute_cutoffs_us is None else tuple(minute_cutoffs_us),
            struck,
            contract,
        )

    used = setting(ledger.extent)
    summary, clues, asked = carry(FirstLook(used), parts)
    right = setting(outcomes.extent(summary.outcomes))
    if right != used:  # unusable rows, or files without statistics, misled the plan
        used = right
        summary, clues, asked = carry(FirstLook(used), parts)
    found, more = _second_look(used, carry, parts, clues)
    again = _all(repeats.AGAIN, (found.again, *(each.again for each in clues.values())))
    summary = without_codes(summary)
    summary = summary._replace(disorder=merge([summary.disorder, more], SHAPES["disorder"]))
    return Measured(
        summary,
        repeats.several(again),
        found.worst,
        is_exact=used.cutoffs_us is None,
        split_us=tuple(split_us),
        step_us=used.step_us,
        contract=None if contract is None else contracted.findings(contract, asked, carry, parts),
    )


def _second_look(
    setting: Setting, carry: Carrier, parts: Mapping[int, Part], clues: Mapping[int, Clues]
) -> tuple[KernelResult, pa.Table]:
    """Follow the clues. Also returns further violations of order."""
    suspects = repeats.suspects(_all(repeats.SEEN, (each.seen for each in clues.values())))
    bound = worst.bound(_all(worst.TIMES, (each.times for each in clues.values())))
    stairs = _all(order.STAIRS, (each.stairs for each in clues.values()))
    violations, batches = order.settle(stairs, setting.stores)
    reaching = {part for part, clue in clues.items() if bound and worst.reaches(clue.times, bound)}
    wanted = reaching | {batch // BATCHES for batch in batches}
    if suspects.num_rows:
        wanted |= {part for part, clue in clues.items() if repeats.has_suspects(clue.seen, suspects)}
    last = len(parts) - 1  # the only one that may have been divided
    reaching |= {min(part, last) for part in reaching}
    look = SecondLook(setting, suspects, bound, frozenset(reaching), frozenset(batches))
    chosen = {part: parts[part] for part in sorted({min(part, last) for part in wanted})}
    found = carry(look, chosen) if chosen else look.join([])
    if batches:
        in_part = pa.array(batches, pa.int64())
        rest = stairs.filter(pc.invert(pc.is_in(stairs["batch"], in_part)))
        violations, _ = order.settle(pa.concat_tables([rest, found.stairs]), setting.stores)
    return found, violations


def _all(schema: pa.Schema, tables: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *tables])
