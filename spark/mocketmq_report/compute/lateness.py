"""How late deliveries were: a partial table of counts by lateness, and the report's figures and spectra.

Measured are deliveries that were not forced, and overdue messages with their lateness so far.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mocketmq.clock import US_PER_S
from mocketmq_report.compute import bins
from mocketmq_report.compute.cells import Cells
from mocketmq_report.compute.groups import by_dimension
from mocketmq_report.compute.partial import Shape, merge
from mocketmq_report.document import Spectrum, SpectrumPoint
from mocketmq_report.ledger.codes import of_column
from mocketmq_report.ledger.rows import Bools, Ints, Rows

SHAPE: Final = Shape(
    ("run", "scheme", "level", "topic", "value"), ("count", "overdue", "sum"), ("least",), ("most",)
)
"""``value`` is the key of the lateness, ``sum``, ``least`` and ``most`` are of the lateness itself."""
MINUTES: Final = SHAPE._replace(keys=(*SHAPE.keys, "minute_us"))
"""The same by the start of the minute of delivery, null if overdue."""

_DIMENSIONS: Final = ("total", "level", "scheme", "profile", "topic", "run")
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
"""Percentiles of a spectrum in units of 2^-``_TICK_BITS``: four for each halving of the distance to 100 %."""


Cutoffs = Sequence[int] | None


class Late(NamedTuple):
    """Rows that are measured, with their lateness."""

    rows: Rows
    lateness_us: Ints
    is_overdue: bool  # and not delivered


class Distribution(NamedTuple):
    """How many deliveries of a group were how late, by value in order."""

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
        """How many are not later than each value."""
        return np.cumsum(self.counts)


def lateness(late: Late, cutoffs_us: Cutoffs) -> pa.Table:
    """How many rows are how late, in bins that are split after each cutoff; exactly without cutoffs."""
    return _lateness(late, cutoffs_us, SHAPE, {})


def minutes(late: Late, cutoffs_us: Cutoffs) -> pa.Table:
    """Count lateness by minute."""
    minute = 60 * US_PER_S
    if late.is_overdue:
        starts = pa.nulls(len(late.rows), pa.int64())
    else:
        starts = pa.array(late.rows.numbers("delivered_us") // minute * minute)
    return _lateness(late, cutoffs_us, MINUTES, {"minute_us": starts})


def _lateness(late: Late, cutoffs_us: Cutoffs, shape: Shape, more: Mapping[str, pa.Array]) -> pa.Table:
    names = [name for name in shape.keys if name in late.rows]
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
    """The names of the ``most`` topics with the most deliveries, in order."""
    rows = counts.group_by("topic").aggregate([("count", "sum")]).to_pylist()
    rows.sort(key=lambda row: (-row["count_sum"], row["topic"]))
    return [row["topic"] for row in rows[:most]]


def distributions(
    counts: pa.Table, profiles: Mapping[str, str | None], topics: Sequence[str]
) -> Iterator[Distribution]:
    """The distribution of each group that has deliveries. Only the given topics are groups."""
    shape = Shape(("name", "value"), ("count", "overdue", "sum"), ("least",), ("most",))
    narrow = merge([counts], SHAPE)  # merged rollups have other keys, too
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
            yield Distribution(
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
    group: Distribution, on_time_us: int, cutoffs_us: Sequence[int], percentiles: Sequence[float]
) -> dict[str, Any]:
    """The fields of ``document.Lateness``; ``percentiles`` is a list in the given order."""
    upto = group.upto
    measured = int(upto[-1])
    on_time = _up_to(group, on_time_us)
    places = [bins.place(each, upto) for each in percentiles]
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


def spectrum(group: Distribution) -> Spectrum | None:
    """The points of the total, a level or a scheme. Each value has its first and its last percentile."""
    if group.dimension not in _WITH_SPECTRUM:
        return None
    upto = group.upto
    # The total times 2^26 may be more than 64 bits hold.
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


def _up_to(group: Distribution, cutoff_us: int) -> int:
    """How many are neither early nor later than this, as far as their bins tell."""
    is_within: Bools = (group.value >= 0) & (group.most <= cutoff_us)
    return int(group.counts[is_within].sum())


def _spans(names: pa.ChunkedArray) -> Iterator[tuple[str, int, int]]:
    """Each name in a sorted column, and where its rows begin and end."""
    runs = pc.run_end_encode(names.combine_chunks()) if len(names) else None
    if runs is None:
        return
    start = 0
    for name, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        yield name, start, end
        start = end
