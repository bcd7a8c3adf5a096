"""Compute the tables of a report in plain Python, row by row, as an oracle for the Spark job."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Any

from mocketmq_report.document import (
    STAGES,
    Cell,
    Dimension,
    Disorder,
    Herd,
    Instant,
    Lateness,
    Reconciliation,
    Spectrum,
    SpectrumPoint,
    Stage,
    Worst,
)
from mocketmq_report.ledger.columns import STATES

Rows = list[dict[str, Any]]
Key = Callable[[int], int]
GroupKey = tuple[Dimension, str]
OF_CONSUMERS = ("delivered-pulled", "pulled-acked")
_LAST = 1 << 40
"""Stands for "no level" in sort keys, so that it sorts after all levels."""


def bin_of(value: int, sub_buckets: int = 1024) -> range:
    """Return the range of the value's bin. A power of two has ``sub_buckets`` bins, mirrored below zero."""
    size = value if value >= 0 else -value - 1
    width = 1
    while size >= 2 * sub_buckets * width:
        width *= 2
    return range(value // width * width, (value // width + 1) * width)


def in_bins(cutoffs_us: Sequence[int]) -> Key:
    """Return a key function whose bins are split after each cutoff."""
    return lambda value: max([bin_of(value)[0], *(cutoff + 1 for cutoff in cutoffs_us if cutoff < value)])


def exactly(value: int) -> int:
    """Key function with bins of width one."""
    return value


def nearest(values: Sequence[int], percentile: float, key: Key) -> int | None:
    """Return the greatest value in the bin that holds the nearest-rank percentile."""
    share = Fraction(str(percentile)) / 100
    if len(values) * (1 - share) < 1:
        return None
    at = sorted(values)[-int(-len(values) * share // 1) - 1]
    return max(value for value in values if key(value) == key(at))


class Oracle:
    """Computes tables from rows, runs and clock moves. Every level of every run gets a row."""

    def __init__(self, rows: Rows, runs: Rows, key: Key, moves: Iterable[dict[str, Any]] = ()) -> None:
        self._key = key
        self._runs = {run["run"]: run for run in runs}
        self._moves = [move | {"store": self._runs[move["run"]]["store"]} for move in moves]
        self._rows = [
            row | {name: self._runs[row["run"]][name] for name in ("store", "profile", "as_of_us")}
            for row in rows
        ]
        delays: dict[str, list[str]] = defaultdict(list)
        for run in sorted(runs, key=lambda run: run["started_wall_us"] or 0):
            for level, delay in enumerate([] if run["levels"] == "unknown" else run["levels"].split(), 1):
                if delay not in delays[str(level)]:
                    delays[str(level)].append(delay)
        self._delays = {level: " or ".join(names) for level, names in delays.items()}

    def _is_overdue(self, row: dict[str, Any]) -> bool:
        return row["as_of_us"] is not None and row["due_us"] <= row["as_of_us"]

    def measured(self) -> Rows:
        """Return deliveries that were not forced, with their lateness."""
        return [
            row | {"lateness_us": row["delivered_us"] - row["due_us"]}
            for row in self._rows
            if row["state"] == "delivered" and not row["forced"]
        ]

    def late(self) -> Rows:
        """Return measured deliveries and overdue messages."""
        return self.measured() + [
            row | {"lateness_us": row["as_of_us"] - row["due_us"]}
            for row in self._rows
            if row["state"] in ("pending", "lost") and self._is_overdue(row)
        ]

    def _groups(self, rows: Rows, dimensions: Iterable[Dimension]) -> Iterator[tuple[GroupKey, Rows]]:
        """Return rows by group, in order: the total, all levels including empty levels, the other groups."""
        for dimension in dimensions:
            found: dict[str, Rows] = defaultdict(list)
            if dimension == "total":
                found["total"] = rows
            else:
                for level in self._delays if dimension == "level" else ():
                    found[level] = []
                for row in rows:
                    if row[dimension] is not None:
                        found[str(row[dimension])].append(row)
            if dimension != "run" or len(self._runs) > 1:
                names = sorted(found, key=int if dimension == "level" else str)
                if dimension == "scheme":
                    names.sort(key=lambda name: name != "levels")  # the level scheme comes first
                yield from (((dimension, name), found[name]) for name in names)

    def _delay(self, group: GroupKey) -> str | None:
        return self._delays.get(group[1]) if group[0] == "level" else None

    def lateness(
        self, on_time_us: int, cutoffs_us: Sequence[int], percentiles: Sequence[float]
    ) -> list[Lateness]:
        found = []
        for group, rows in self._groups(self.late(), ("total", "level", "scheme", "profile", "topic", "run")):
            values = [row["lateness_us"] for row in rows]
            on_time = sum(0 <= value <= on_time_us for value in values)
            found.append(
                Lateness(
                    dimension=group[0],
                    name=group[1],
                    delay=self._delay(group),
                    measured=len(values),
                    overdue=sum(row["state"] != "delivered" for row in rows),
                    early=sum(value < 0 for value in values),
                    on_time=on_time,
                    on_time_share=on_time / len(values) if values else None,
                    min_us=min(values, default=None),
                    mean_us=sum(values) / len(values) if values else None,
                    max_us=max(values, default=None),
                    percentiles={f"p{each}": nearest(values, each, self._key) for each in percentiles},
                    within=[sum(0 <= value <= cutoff for value in values) for cutoff in cutoffs_us],
                )
            )
        return found

    def reconciliation(self, on_time_us: int) -> list[Reconciliation]:
        found = []
        for group, rows in self._groups(self._rows, ("total", "level", "scheme", "run")):
            messages: dict[Any, Rows] = defaultdict(list)
            for row in rows:
                is_foreign = row["parked_offset"] is None
                own = (row["message_id"], row["attempt"]) if is_foreign else row["parked_offset"]
                messages[row["store"], is_foreign, own].append(row)
            became: dict[str, list[Rows]] = {state: [] for state in STATES}
            for each in messages.values():
                became[min((row["state"] for row in each), key=STATES.index)].append(each)
            found.append(
                Reconciliation(
                    dimension=group[0],
                    name=group[1],
                    delay=self._delay(group),
                    sent=len(messages),
                    delivered=len(became["delivered"]),
                    pending=len(became["pending"]),
                    cancelled=len(became["cancelled"]),
                    expired=len(became["expired"]),
                    lost=len(became["lost"]),
                    repeats=sum(row["state"] == "delivered" for row in rows) - len(became["delivered"]),
                    forced=sum(any(row["forced"] for row in each) for each in became["delivered"]),
                    overdue=sum(
                        any(row["state"] == "pending" and self._is_overdue(row) for row in each)
                        for each in became["pending"]
                    ),
                    is_silent=self._is_silent(rows, on_time_us),
                )
            )
        return found

    def _is_silent(self, rows: Rows, on_time_us: int) -> bool:
        stores = {row["store"] for row in rows}
        return any(
            self._is_store_silent([row for row in rows if row["store"] == each], on_time_us)
            for each in stores
        )

    def _is_store_silent(self, rows: Rows, on_time_us: int) -> bool:
        overdue = [row["due_us"] for row in rows if row["state"] == "pending" and self._is_overdue(row)]
        if not overdue:
            return False
        as_of = max(row["as_of_us"] for row in rows)
        came = any(row["state"] == "delivered" and row["delivered_us"] >= min(overdue) for row in rows)
        return min(overdue) < as_of - on_time_us and not came

    def _span(self, row: dict[str, Any], stage: str) -> int:
        """Return the duration of a stage; stages of consumers exclude time skipped by clock moves."""
        begin, end = (row[name] for name in STAGES[stage])  # type: ignore[index]  # one of them
        skipped = sum(
            max(min(end, move["to_us"]) - max(begin, move["from_us"]), 0)
            for move in self._moves
            if stage in OF_CONSUMERS and move["store"] == row["store"]
        )
        span: int = end - begin - skipped
        return span

    def stages(self) -> list[Stage]:
        found = []
        names = {name for ends in STAGES.values() for name in ends}
        for group, rows in self._groups(self.measured(), ("total", "level", "scheme")):
            complete = [row for row in rows if all(row[name] is not None for name in names)]
            found += [self._stage(group, stage, rows, complete) for stage in STAGES]
            totals = [sum(self._span(row, stage) for stage in STAGES) for row in complete]
            found.append(_stage(group, "total", totals, totals))
        pulled = [row for row in self.measured() if row["pulled_by"]]
        for name in sorted({row["pulled_by"] for row in pulled}):
            rows = [row for row in pulled if row["pulled_by"] == name]
            complete = [row for row in rows if all(row[each] is not None for each in names)]
            found += [self._stage(("group", name), stage, rows, complete) for stage in OF_CONSUMERS]
        return [stage for stage in found if stage.count]

    def _stage(self, group: tuple[str, str], stage: Any, rows: Rows, complete: Rows) -> Stage:
        has_both = [row for row in rows if all(row[name] is not None for name in STAGES[stage])]
        spans = [[self._span(row, stage) for row in some] for some in (has_both, complete)]
        return _stage(group, stage, *spans)

    def instants(self, step_us: int) -> list[Instant]:
        steps: dict[int, list[int]] = defaultdict(list)
        for row in self.measured():
            steps[row["delivered_us"] // step_us * step_us].append(row["lateness_us"])
        return [
            Instant(
                at_us=at_us,
                count=len(values),
                p50_us=nearest(values, 50, self._key),
                p99_us=nearest(values, 99, self._key),
                max_us=max(values),
            )
            for at_us, values in sorted(steps.items())
        ]

    def cells(self, step_us: int) -> list[Cell]:
        counts: dict[tuple[int, int, int], int] = defaultdict(int)
        for row in self.measured():
            cell = bin_of(row["lateness_us"], 2)
            counts[row["delivered_us"] // step_us * step_us, cell.start, cell.stop] += 1
        return [
            Cell(at_us=at_us, low_us=low, high_us=high, count=count)
            for (at_us, low, high), count in sorted(counts.items())
        ]

    def herds(self) -> list[Herd]:
        seconds: dict[tuple[str, int], list[int]] = defaultdict(list)
        for row in self.measured():
            seconds[row["run"], row["due_us"] // 1_000_000].append(row["lateness_us"])
        found = []
        by_size = sorted(seconds.values(), key=len)
        for bits, group in groupby(by_size, key=lambda values: len(values).bit_length()):
            each = list(group)
            every = [value for values in each for value in values]
            worst = sorted(max(values) for values in each)
            found.append(
                Herd(
                    due_low=2 ** (bits - 1),
                    due_high=2**bits - 1,
                    seconds=len(each),
                    deliveries=len(every),
                    mean_us=sum(every) / len(every),
                    p50_max_us=worst[(len(worst) + 1) // 2 - 1],
                    max_us=worst[-1],
                )
            )
        return found

    def disorder(self) -> list[Disorder]:
        counts: dict[tuple[str, str, int], list[int]] = defaultdict(lambda: [0, 0])
        latest: dict[tuple[str, str, int], int] = {}
        rows = [row for row in self.measured() if row["scheme"] != "levels" or row["level"] is not None]
        due_us = {id(row): max(row["due_us"], row["stored_us"] or 0) for row in rows}
        for row in sorted(rows, key=lambda row: (_place(row), due_us[id(row)])):
            due, level = due_us[id(row)], _LAST if row["level"] is None else row["level"]
            line = row["store"], row["scheme"], level
            count = counts[row["run"], row["scheme"], level]
            count[0] += 1
            count[1] += due < latest.get(line, due)
            latest[line] = max(due, latest.get(line, due))
        return [
            Disorder(
                run=run,
                scheme=scheme,
                level=None if level == _LAST else level,
                deliveries=count,
                violations=violations,
            )
            for (run, scheme, level), (count, violations) in sorted(
                counts.items(), key=lambda one: (one[0][0], one[0][2], one[0][1])
            )
        ]

    def worst(self) -> list[Worst]:
        rows = sorted(
            self.late(),
            key=lambda row: (
                -row["lateness_us"], row["due_us"], row["run"], row["message_id"], row["attempt"]
            ),
        )  # fmt: skip
        return [Worst(**{name: row[name] for name in Worst.__struct_fields__}) for row in rows[:20]]

    def spectra(self) -> list[Spectrum]:
        found = []
        ticks = [1 - Fraction(8 - tick, 8 * 2**halving) for halving in range(24) for tick in range(4)]
        for group, rows in self._groups(self.late(), ("total", "level", "scheme")):
            values = sorted(row["lateness_us"] for row in rows)
            reached: dict[int, list[Fraction]] = defaultdict(list)
            for tick in [*ticks, Fraction(1)] if values else ():
                rank = max(1, -int(-len(values) * tick // 1))
                reached[self._key(values[rank - 1])].append(tick)
            points = [
                SpectrumPoint(
                    percentile=float(100 * tick),
                    value_us=max(value for value in values if self._key(value) == key),
                    count=sum(self._key(value) <= key for value in values),
                )
                for key, these in sorted(reached.items())
                for tick in sorted({these[0], these[-1]})
            ]
            if points:
                found.append(Spectrum(dimension=group[0], name=group[1], points=points))
        return found


def _stage(group: tuple[str, str], stage: Any, values: list[int], complete: list[int]) -> Stage:
    return Stage(
        dimension=group[0],  # type: ignore[arg-type]  # one of those of stages
        name=group[1],
        stage=stage,
        count=len(values),
        mean_us=sum(values) / len(values) if values else None,
        p50_us=nearest(values, 50, _stage_key),
        p99_us=nearest(values, 99, _stage_key),
        max_us=max(values, default=None),
        complete=len(complete),
        complete_sum_us=sum(complete),
    )


def _stage_key(value: int) -> int:
    """Return the bin of a stage's duration; each power of two has 64 bins."""
    return bin_of(value, 64).start


def _place(row: dict[str, Any]) -> int:
    """Return the row's position in delivery order."""
    place: int | None = row["delivered_offset"]
    return row["delivered_us"] if place is None else place
