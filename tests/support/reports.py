"""Make reports for tests from two simulated hours of a broker; plain Python computes the tables.

All values are drawn from a seed, so the numbers of a report agree with each other and never change.
"""

import math
import random
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from mocketmq.clock import US_PER_S
from mocketmq.duration import parse_duration_us
from mocketmq_report import document as d
from mocketmq_report.judge.compare import compare, parse_rule
from mocketmq_report.judge.drawn_limits import DrawnLimit, drawn_limits
from mocketmq_report.judge.thresholds import judge, parse

LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
DELAYS: Final = LEVELS.split()
EMPTY: Final = (13, 18)
SILENT: Final = 16
START_US: Final = int(datetime(2026, 11, 20, 22, tzinfo=UTC).timestamp()) * US_PER_S
HOURS_S: Final = 7_200
RUNS_S: Final = ((0, 2_400), (2_412, 4_800), (4_806, HOURS_S))  # two restarts, of 12 and 6 s
MOVE_S: Final = (6_000, 6_600)
ON_TIME_US: Final = 100_000
CUTOFFS_US: Final = [10_000, 100_000, 1_000_000, 2_000_000, 5_000_000, 60_000_000]
PERCENTILES: Final = ("p50", "p90", "p99", "p99.9")
_BANDS_US: Final = [10**power * digit for power in range(2, 10) for digit in (1, 2, 5)]
_EDGES_US: Final = [*(-band for band in reversed(_BANDS_US)), 0, *_BANDS_US]


@dataclass
class Row:
    """A row of ``mocketmq_report.ledger.columns.DELIVERIES``."""

    run: str
    message_id: str
    topic: str
    scheme: str
    level: int | None
    born_us: int
    stored_us: int
    due_us: int
    state: str = "delivered"
    queue_id: int = 0
    queue_offset: int | None = None
    attempt: int = 1
    forced: bool = False
    picked_us: int | None = None
    delivered_us: int | None = None
    pulled_us: int | None = None
    acked_us: int | None = None

    @property
    def end_us(self) -> int:
        """The delivery time, or the end of the simulation if the message was not delivered."""
        return START_US + HOURS_S * US_PER_S if self.delivered_us is None else self.delivered_us

    @property
    def lateness_us(self) -> int:
        return self.end_us - self.due_us

    @property
    def is_overdue(self) -> bool:
        return self.state == "pending" and self.lateness_us > 0

    @property
    def is_measured(self) -> bool:
        return self.is_overdue or (self.state == "delivered" and not self.forced)


def run_names() -> list[str]:
    starts = [datetime.fromtimestamp(START_US / US_PER_S + start, UTC) for start, _ in RUNS_S]
    return [f"{at:%Y%m%dT%H%M%S}.000000Z" for at in starts]


def _send(draw: random.Random, moved: bool) -> list[Row]:
    """Send 3,000 messages, a tenth of them in herds that are due together."""
    rows = []
    levels = [level for level in range(1, 19) if level not in EMPTY]
    for number in range(3_000):
        at_s = draw.randrange(0, HOURS_S, 600) + 30.0 + draw.random() / 2 if number % 10 == 0 else None
        while at_s is None or not any(start <= at_s < end for start, end in RUNS_S):
            at_s = draw.uniform(0, HOURS_S)
        if moved and MOVE_S[0] <= at_s < MOVE_S[1]:
            continue  # the clock skipped this instant
        born_us = START_US + int(at_s * US_PER_S)
        stored_us = born_us + draw.randrange(400, 3_000)
        level = None if draw.random() < 0.1 else draw.choice(levels)
        if number % 10 == 0:
            level = 4
        delay_us = (
            draw.randrange(10, 900) * US_PER_S if level is None else parse_duration_us(DELAYS[level - 1])
        )
        rows.append(
            Row(
                run="",
                message_id=f"{draw.getrandbits(128):032X}",
                topic=draw.choice(("orders", "orders", "payments")),
                scheme="directories" if level is None else "levels",
                level=level,
                born_us=born_us,
                stored_us=stored_us,
                due_us=stored_us + delay_us,
                queue_id=draw.randrange(4),
            )
        )
    return sorted(rows, key=lambda row: row.due_us)


def _deliver(rows: list[Row], draw: random.Random, profile: str, moved: bool) -> None:
    """Decide the outcome of each message. Within a level, nearly all are delivered in order of due time."""
    names = run_names()
    latest: dict[tuple[str, int | None], int] = defaultdict(int)
    together: dict[int, int] = defaultdict(int)
    offsets: dict[tuple[str, int], int] = defaultdict(int)
    for number, row in enumerate(rows):
        due_s = (row.due_us - START_US) / US_PER_S
        run = min(bisect_right([end for _, end in RUNS_S], due_s), 2)
        row.run = names[run]
        if due_s >= HOURS_S or (row.level == SILENT and due_s >= 6_700):
            row.state = "pending"
            continue
        if number % 211 == 0:
            row.state = ("cancelled", "cancelled", "expired")[number // 211 % 3]
            continue
        if number == 1_111:
            row.state = "lost"
            continue
        together[int(due_s)] += 1
        late_us = draw.lognormvariate(math.log(900), 0.6) + 120 * together[int(due_s)]
        if profile == "rocketmq4":
            late_us += draw.uniform(0, 100_000)  # the timer looks every 100 ms
        if number % 97 == 0:
            late_us *= draw.uniform(10, 80)
        picked_us = row.due_us + int(late_us * 0.4)
        if moved and MOVE_S[0] <= due_s < MOVE_S[1]:
            picked_us = row.due_us
        picked_us = max(picked_us, START_US + RUNS_S[run][0] * US_PER_S + 180_000 if run else 0)
        delivered_us = picked_us + (int(late_us * 0.6) if picked_us > row.due_us else 0)
        delivered_us = max(delivered_us, latest[row.run, row.level])
        if row.level == 2 and 0 < due_s - 4_900 < 90:  # delivered early, which is a defect
            picked_us = delivered_us = row.due_us - 3_000
        if number % 400 == 7:
            row.forced = True
            picked_us = delivered_us = row.stored_us + (row.due_us - row.stored_us) // 2
        elif number in (600, 1_600):
            delivered_us += 90 * US_PER_S  # messages due later overtake it
        else:
            latest[row.run, row.level] = max(latest[row.run, row.level], delivered_us)
        row.picked_us, row.delivered_us = picked_us, delivered_us
        row.queue_offset = offsets[row.topic, row.queue_id]
        offsets[row.topic, row.queue_id] += 1
        if number % 13:
            row.pulled_us = delivered_us + draw.randrange(300, 4_000)
            if number % 17:
                row.acked_us = row.pulled_us + draw.randrange(1_000, 30_000)
    first = next(row for row in rows if row.run == names[1] and row.state == "delivered" and not row.forced)
    rows.append(
        Row(**vars(first) | {"delivered_us": first.end_us + 40_000, "pulled_us": None, "acked_us": None})
    )


def percentile(values: Sequence[int], percent: float) -> int | None:
    """Return the nearest-rank percentile of sorted values, or None if no value would lie beyond it."""
    if len(values) * (100 - percent) < 100 - 1e-6:
        return None
    return values[max(math.ceil(round(len(values) * percent / 100, 9)), 1) - 1]


class _Group(NamedTuple):
    dimension: d.Dimension
    name: str
    delay: str | None
    rows: list[Row]

    @property
    def head(self) -> dict[str, Any]:
        return {"dimension": self.dimension, "name": self.name, "delay": self.delay}


def _groups(rows: list[Row], profile: str, *dimensions: d.Dimension) -> Iterator[_Group]:
    """Return the groups of each dimension in report order, with all levels, even empty levels."""
    for dimension in dimensions:
        if dimension == "total":
            yield _Group(dimension, "total", None, rows)
        elif dimension == "profile":
            yield _Group(dimension, profile, None, rows)
        elif dimension == "level":
            for level, delay in enumerate(DELAYS, start=1):
                yield _Group(dimension, str(level), delay, [row for row in rows if row.level == level])
        else:
            for name in sorted(
                {getattr(row, dimension) for row in rows}, key=lambda name: (name != "levels", name)
            ):
                of_it = [row for row in rows if getattr(row, dimension) == name]
                yield _Group(dimension, name, None, of_it)


def _lateness(group: _Group) -> d.Lateness:
    measured = [row for row in group.rows if row.is_measured]
    values = sorted(row.lateness_us for row in measured)
    early = sum(value < 0 for value in values)
    within = [sum(0 <= value <= cutoff for value in values) for cutoff in CUTOFFS_US]
    on_time = within[CUTOFFS_US.index(ON_TIME_US)]
    return d.Lateness(
        **group.head,
        measured=len(values),
        overdue=sum(row.is_overdue for row in measured),
        early=early,
        on_time=on_time,
        on_time_share=on_time / len(values) if values else None,
        min_us=values[0] if values else None,
        mean_us=sum(values) / len(values) if values else None,
        max_us=values[-1] if values else None,
        percentiles={name: percentile(values, float(name[1:])) for name in PERCENTILES},
        within=within,
    )


def _reconciliation(group: _Group) -> d.Reconciliation:
    messages = {row.message_id: row.state for row in group.rows}
    states = Counter(messages.values())
    overdue = [row for row in group.rows if row.is_overdue]
    delivered = [row for row in group.rows if row.state == "delivered"]
    oldest_us = min((row.due_us for row in overdue), default=0)
    return d.Reconciliation(
        **group.head,
        sent=len(messages),
        delivered=states["delivered"],
        pending=states["pending"],
        cancelled=states["cancelled"],
        expired=states["expired"],
        lost=states["lost"],
        repeats=len(delivered) - states["delivered"],
        forced=len({row.message_id for row in delivered if row.forced}),
        overdue=len(overdue),
        is_silent=bool(overdue) and all(row.end_us < oldest_us for row in delivered),
    )


_ENDS: Final[dict[str, tuple[str, str]]] = {
    "born-stored": ("born_us", "stored_us"),
    "due-picked": ("due_us", "picked_us"),
    "picked-delivered": ("picked_us", "delivered_us"),
    "delivered-pulled": ("delivered_us", "pulled_us"),
    "pulled-acked": ("pulled_us", "acked_us"),
}


def _stages(group: _Group) -> Iterator[d.Stage]:
    rows = [row for row in group.rows if row.is_measured and row.delivered_us is not None]
    complete = [row for row in rows if row.acked_us is not None]
    for stage in (*_ENDS, "total"):
        if stage == "total":
            values = sorted(_outside_us(row) for row in complete)
            complete_sum_us = sum(values)
        else:
            low, high = _ENDS[stage]
            ends = [(getattr(row, low), getattr(row, high)) for row in rows]
            values = sorted(b - a for a, b in ends if a is not None and b is not None)
            complete_sum_us = sum(getattr(row, high) - getattr(row, low) for row in complete)
        yield d.Stage(
            dimension=group.dimension,  # type: ignore[arg-type]  # one of those of stages
            name=group.name,
            stage=stage,  # type: ignore[arg-type]  # one of them
            count=len(values),
            mean_us=sum(values) / len(values) if values else None,
            p50_us=percentile(values, 50),
            p99_us=percentile(values, 99),
            max_us=values[-1] if values else None,
            complete=len(complete),
            complete_sum_us=complete_sum_us,
        )


def _outside_us(row: Row) -> int:
    """Return the time from born to acknowledged, minus the requested delay."""
    assert row.acked_us is not None
    return row.acked_us - row.born_us - (row.due_us - row.stored_us)


def _timeline(rows: list[Row], moved: bool) -> d.Timeline:
    step_us = 60 * US_PER_S
    values: dict[int, list[int]] = {START_US + number * step_us: [] for number in range(HOURS_S // 60)}
    for row in rows:
        if row.is_measured and not row.is_overdue:
            values[row.end_us - (row.end_us - START_US) % step_us].append(row.lateness_us)
    cells = Counter((at, bisect_right(_EDGES_US, value)) for at, late in values.items() for value in late)
    markers = [
        d.Marker(kind="start", run=run, at_us=at_us, to_us=at_us)
        for run, at_us in zip(run_names(), (START_US + start * US_PER_S for start, _ in RUNS_S), strict=True)
    ]
    if moved:
        at_us, to_us = (START_US + at * US_PER_S for at in MOVE_S)
        markers.append(d.Marker(kind="move", run=run_names()[2], at_us=at_us, to_us=to_us))
    return d.Timeline(
        step_us=step_us,
        instants=[
            d.Instant(
                at_us=at,
                count=len(late),
                p50_us=percentile(sorted(late), 50),
                p99_us=percentile(sorted(late), 99),
                max_us=max(late, default=None),
            )
            for at, late in values.items()
        ],
        cells=[
            d.Cell(at_us=at, low_us=_EDGES_US[edge - 1], high_us=_EDGES_US[edge], count=count)
            for (at, edge), count in sorted(cells.items())
        ],
        markers=markers,
        markers_left_out=0,
    )


def _herds(rows: list[Row]) -> list[d.Herd]:
    seconds: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        if row.is_measured and not row.is_overdue:
            seconds[row.due_us // US_PER_S].append(row.lateness_us)
    sizes: dict[int, list[list[int]]] = defaultdict(list)
    for late in seconds.values():
        sizes[len(late).bit_length() - 1].append(late)
    return [
        d.Herd(
            due_low=2**power,
            due_high=2 ** (power + 1) - 1,
            seconds=len(herds),
            deliveries=sum(map(len, herds)),
            mean_us=sum(map(sum, herds)) / sum(map(len, herds)),
            p50_max_us=percentile(sorted(map(max, herds)), 50) or 0,
            max_us=max(map(max, herds)),
        )
        for power, herds in sorted(sizes.items())
    ]


def _disorder(rows: list[Row]) -> Iterator[d.Disorder]:
    ways: dict[tuple[str, int, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row.is_measured and not row.is_overdue:
            ways[row.run, row.level or len(DELAYS) + 1, row.scheme].append(row)
    for (run, level, scheme), way in sorted(ways.items()):
        latest_us = violations = 0
        for row in sorted(way, key=lambda row: row.end_us):
            violations += row.due_us < latest_us
            latest_us = max(latest_us, row.due_us)
        yield d.Disorder(
            run=run,
            scheme=scheme,
            level=level if scheme == "levels" else None,
            deliveries=len(way),
            violations=violations,
        )


def _spectra(rows: list[Row], profile: str) -> Iterator[d.Spectrum]:
    for group in _groups(rows, profile, "total", "level"):
        values = sorted(row.lateness_us for row in group.rows if row.is_measured)
        marks = [100 - 100 / 2 ** (step / 5) for step in range(60)]
        points = [
            (mark, percentile(values, mark)) for mark in marks if 100 - mark >= 100 / max(len(values), 1)
        ]
        if values:
            points.append((100.0, values[-1]))
            yield d.Spectrum(
                dimension=group.dimension,
                name=group.name,
                points=[
                    d.SpectrumPoint(percentile=mark, value_us=value, count=bisect_right(values, value))
                    for mark, value in points
                    if value is not None
                ],
            )


def _worst(rows: list[Row]) -> list[d.Worst]:
    latest = sorted((row for row in rows if row.is_measured), key=lambda row: -row.lateness_us)[:20]
    return [d.Worst(**{name: getattr(row, name) for name in d.Worst.__struct_fields__}) for row in latest]


def _runs(rows: list[Row], profile: str, moved: bool) -> Iterator[d.Run]:
    for number, name in enumerate(run_names()):
        start_us, end_us = (START_US + second * US_PER_S for second in RUNS_S[number])
        times = [row.delivered_us for row in rows if row.run == name and row.delivered_us is not None]
        yield d.Run(
            run=name,
            source=f"nightly/{profile}",
            version="0.4.0",
            host="runner-7",
            profile=profile,
            clock="real",
            levels=LEVELS,
            durability="full",
            started_wall_us=start_us,
            started_us=start_us,
            as_of_us=end_us,
            moves=int(moved and number == 2),
            deliveries=len(times),
            per_second=(len(times) - 1) / ((max(times) - min(times)) / US_PER_S),
        )


@cache
def simulated(title: str, profile: str, moved: bool, seed: int) -> d.Report:
    """Return the report of two simulated hours, not yet judged. Callers share it, so do not change it."""
    draw = random.Random(seed)
    rows = _send(draw, moved)
    _deliver(rows, draw, profile, moved)
    runs = list(_runs(rows, profile, moved))
    every: tuple[d.Dimension, ...] = ("total", "level", "scheme", "profile", "topic", "run")
    return d.Report(
        header=d.Header(
            title=title,
            version="0.4.0",
            spark="4.3.0",
            created_wall_us=START_US + (HOURS_S + 90) * US_PER_S,
            is_performance=not moved,
            method="exact",
            error=0,
            on_time_us=ON_TIME_US,
            cutoffs_us=CUTOFFS_US,
            runs=runs,
            warnings=[f"the clock of run {runs[2].run} was moved: its times say nothing about speed"] * moved,
        ),
        passed=True,
        judgements=[],
        quality=d.Quality(
            read=len(rows) + 3,
            kept=len(rows),
            dropped=[d.Drop(reason="due_us is missing", rows=2), d.Drop(reason="level is negative", rows=1)],
            skewed=4,
            disorder=[d.Drop(reason="pulled before delivered", rows=1)],
            broken=[
                d.BrokenSource(
                    source="nightly/broken", reason="mocketmq.db is cut off: its pages end at 4,096"
                )
            ],
        ),
        lateness=[_lateness(group) for group in _groups(rows, profile, *every)],
        reconciliation=[
            _reconciliation(group) for group in _groups(rows, profile, "total", "level", "scheme", "run")
        ],
        stages=[
            stage for group in _groups(rows, profile, "total", "level", "scheme") for stage in _stages(group)
        ],
        timeline=_timeline(rows, moved),
        herds=_herds(rows),
        disorder=list(_disorder(rows)),
        worst=_worst(rows),
        spectra=list(_spectra(rows, profile)),
    )


THRESHOLDS: Final = (
    "early == 0",
    "lost == 0",
    "silent == 0",
    "level=3 p99 <= 50ms",
    "level=* p50 <= 10ms",
    "level=17 p99.9 <= 1s",
    "total on_time(100ms) >= 98.5%",
    "scheme=directories max <= 10s",
    "dropped <= 10",
)
RULES: Final = ("p50 > 1.5x", "level=* p90 > +100ms", "on_time < -0.1%", "early > +0")


def sample_report(**changes: Any) -> d.Report:
    """Return a full, failed report with restarts, a moved clock, a silent level and a broken source."""
    report = simulated("nightly", "exact", True, 4)
    judgements = [judge(parse(text), report) for text in THRESHOLDS]
    return replace(report, **{"judgements": judgements, "passed": False} | changes)


def sample_limits() -> list[DrawnLimit]:
    """Return the limits that the charts of ``sample_report`` show."""
    return list(drawn_limits(map(parse, THRESHOLDS), sample_report()))


def sample_comparison() -> d.Comparison:
    """Return a comparison of profile ``rocketmq4`` with the baseline ``exact``."""
    exact, faithful = (simulated(profile, profile, False, 4) for profile in ("exact", "rocketmq4"))
    return compare(faithful, [exact], [parse_rule(text) for text in RULES])
