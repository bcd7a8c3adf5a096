"""Counts deliveries by lateness: a partial table, and the report's figures and spectra.

Forced deliveries do not count. An overdue message counts with its lateness up to now.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mocketmq.clock import US_PER_S
from mocketmq_report.compute import bins
from mocketmq_report.compute.cells import Cells, by_dimension
from mocketmq_report.compute.partial import Shape, merge
from mocketmq_report.document import Spectrum, SpectrumPoint
from mocketmq_report.ledger.codes import of_column
from mocketmq_report.ledger.rows import Bools, Ints, Rows

SHAPE: Final = Shape(
    ("run", "scheme", "level", "topic", "broker", "value"), ("count", "overdue", "sum"), ("least",), ("most",)
)
"""``value`` is the bin's key; ``sum``, ``least`` and ``most`` are exact."""
MINUTES: Final = SHAPE._replace(keys=(*SHAPE.keys, "minute_us"))
"""``SHAPE`` with the start of the minute of delivery, which is null for overdue messages."""

_DIMENSIONS: Final = ("total", "level", "scheme", "profile", "topic", "broker", "run")
_WITH_SPECTRUM: Final = ("total", "level", "scheme")
_TICK_BITS: Final = 26
_TICKS: Final = np.array(
    [
        (1 << _TICK_BITS) - (8 - tick << _TICK_BITS - 3 >> halving)
        for halving in range(24)
        for tick in range(4)
    ]
    + [1 << _TICK_BITS]
)
"""Percentiles of a spectrum in units of 2^-``_TICK_BITS``; each halving of the distance to 100 % has four."""


Cutoffs = Sequence[int] | None


class LatenessRows(NamedTuple):
    """Measured rows, with their lateness."""

    rows: Rows
    lateness_us: Ints
    is_overdue: bool  # measured, but not delivered


class LatenessCounts(NamedTuple):
    """The counts of a group's deliveries by lateness, in order."""

    dimension: str
    name: str
    value: Ints
    counts: Ints
    overdue: int
    sum: int
    least: int
    most: Ints

    @property
    def upto(self) -> Ints:
        """The number of deliveries not later than each value."""
        return np.cumsum(self.counts)


def lateness(late: LatenessRows, cutoffs_us: Cutoffs) -> pa.Table:
    """Count rows by lateness in bins, with a bin boundary after each cutoff.

    If ``cutoffs_us`` is None, count each exact lateness separately.
    """
    return _lateness(late, cutoffs_us, SHAPE, {})


def minutes(late: LatenessRows, cutoffs_us: Cutoffs) -> pa.Table:
    """Count lateness by minute."""
    minute = 60 * US_PER_S
    if late.is_overdue:
        starts = pa.nulls(len(late.rows), pa.int64())
    else:
        starts = pa.array(late.rows.numbers("delivered_us") // minute * minute)
    return _lateness(late, cutoffs_us, MINUTES, {"minute_us": starts})


def _lateness(
    late: LatenessRows, cutoffs_us: Cutoffs, shape: Shape, more: Mapping[str, pa.Array]
) -> pa.Table:
    names = [name for name in shape.keys if name in late.rows]
    if "broker" not in late.rows:  # exports of earlier versions lack the column
        more = {"broker": pa.nulls(len(late.rows), pa.string()), **more}
    bin_ = bins.codes(late.lateness_us, cutoffs_us)
    cells = Cells(*map(late.rows.codes, names), *map(of_column, more.values()), bin_)
    most = cells.most(late.lateness_us)
    return pa.table(
        {
            **late.rows.taken(cells.places, *names),
            **{name: column.take(pa.array(cells.places)) for name, column in more.items()},
            "value": bins.keys(most, cutoffs_us),
            "count": cells.count,
            "overdue": cells.count * late.is_overdue,
            "sum": cells.sum(late.lateness_us),
            "least": cells.least(late.lateness_us),
            "most": most,
        }
    )


def busiest(counts: pa.Table, most: int) -> list[str]:
    """Return the names of the ``most`` topics with the most deliveries, in order."""
    rows = counts.group_by("topic").aggregate([("count", "sum")]).to_pylist()
    rows.sort(key=lambda row: (-row["count_sum"], row["topic"]))
    return [row["topic"] for row in rows[:most]]


def distributions(
    counts: pa.Table, profiles: Mapping[str, str | None], topics: Sequence[str]
) -> Iterator[LatenessCounts]:
    """Return the distribution of each group with deliveries. Only the given topics have groups."""
    shape = Shape(("name", "value"), ("count", "overdue", "sum"), ("least",), ("most",))
    narrow = merge([counts], SHAPE)  # drops further keys, which merged rollups have
    names = (
        [profiles.get(run) for run in narrow["run"].to_pylist()] if len({*profiles.values()}) > 1 else None
    )
    profile = pa.repeat(next(iter(profiles.values()), None), narrow.num_rows) if names is None else names
    narrow = narrow.append_column("profile", pa.array(profile, pa.string()))
    for dimension in _DIMENSIONS:
        rows = by_dimension(narrow, dimension)
        if dimension == "topic":
            rows = rows.filter(pc.is_in(rows["name"], pa.array(topics, pa.string())))
        table = merge([rows], shape).sort_by([("name", "ascending"), ("value", "ascending")])
        found = {name: table[name].to_numpy() for name in (*shape.names[1:],)}
        for name, start, end in _spans(table["name"]):
            yield LatenessCounts(
                dimension,
                name,
                found["value"][start:end],
                found["count"][start:end],
                int(found["overdue"][start:end].sum()),
                int(found["sum"][start:end].sum()),
                int(found["least"][start:end].min()),
                found["most"][start:end],
            )


def figures(
    group: LatenessCounts, on_time_us: int, cutoffs_us: Sequence[int], percentiles: Sequence[float]
) -> dict[str, Any]:
    """Compute the fields of ``document.Lateness``; ``percentiles`` is a list in the given order."""
    upto = group.upto
    measured = int(upto[-1])
    on_time = _up_to(group, on_time_us)
    places = [bins.rank_of(each, upto) for each in percentiles]
    return {
        "dimension": group.dimension,
        "name": group.name,
        "measured": measured,
        "overdue": group.overdue,
        "early": int(group.counts[group.value < 0].sum()),
        "on_time": on_time,
        "on_time_share": on_time / measured,
        "min_us": group.least,
        "mean_us": group.sum / measured,
        "max_us": int(group.most.max()),
        "percentiles": [None if place is None else int(group.most[place]) for place in places],
        "within": [_up_to(group, cutoff) for cutoff in cutoffs_us],
    }


def spectrum(group: LatenessCounts) -> Spectrum | None:
    """Compute the points of the total, a level or a scheme: the first and last percentile of each value."""
    if group.dimension not in _WITH_SPECTRUM:
        return None
    upto = group.upto
    # Python's integers, because the total times 2^26 may exceed 64 bits.
    ranks = [max(1, -(-int(upto[-1]) * int(tick) // (1 << _TICK_BITS))) for tick in _TICKS]
    places = np.searchsorted(upto, ranks)
    is_first = np.append(True, places[1:] != places[:-1])
    is_last = np.append(places[1:] != places[:-1], True)
    return Spectrum(
        dimension=group.dimension,  # type: ignore[arg-type]  # one of them
        name=group.name,
        points=[
            SpectrumPoint(
                percentile=float(_TICKS[tick] * 100.0 / (1 << _TICK_BITS)),
                value_us=int(group.most[places[tick]]),
                count=int(upto[places[tick]]),
            )
            for tick in np.flatnonzero(is_first | is_last)
        ],
    )


def _up_to(group: LatenessCounts, cutoff_us: int) -> int:
    """Count deliveries that are not early and at most ``cutoff_us`` late, to the precision of the bins."""
    is_within: Bools = (group.value >= 0) & (group.most <= cutoff_us)
    return int(group.counts[is_within].sum())


def _spans(names: pa.ChunkedArray) -> Iterator[tuple[str, int, int]]:
    """Yield each name of a sorted column, with the begin and the end of its rows."""
    runs = pc.run_end_encode(names.combine_chunks()) if len(names) else None
    if runs is None:
        return
    start = 0
    for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield name, start, end
        start = end
