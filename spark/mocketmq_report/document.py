"""The report as data: what ``report.json`` holds. Its JSON schema is ``docs/report.schema.json``.

Everything else that a report is, HTML, Markdown, JUnit, a table in the terminal, is made from this. Durations
and instants are microseconds (``_us``); instants are epoch time of the broker's clock unless the name says
``wall``. A percentile is nearest-rank: the least value that so many per cent of all do not exceed.
"""

from typing import Final, Literal, get_args

from msgspec import Struct

SCHEMA_VERSION: Final = "1.0"
"""The second number rises with what is added, the first with what changes or goes."""

Dimension = Literal["total", "level", "scheme", "profile", "topic", "run"]
"""By what deliveries are grouped. The name of the group is a level's number, a scheme's name and so on."""

StageName = Literal["born-stored", "due-picked", "picked-delivered", "delivered-pulled", "pulled-acked"]
"""The stages that a message goes through, in order, each named by its begin and its end."""
STAGES: Final[dict[StageName, tuple[str, str]]] = {
    stage: (f"{begin}_us", f"{end}_us") for stage in get_args(StageName) for begin, end in [stage.split("-")]
}
"""The columns of the ledger that hold the begin and the end of each stage."""


class Run(Struct, kw_only=True):
    """One start of a broker; ``unknown`` where a file from elsewhere does not say."""

    run: str
    source: str
    version: str
    host: str
    profile: str
    clock: str
    levels: str
    durability: str
    started_wall_us: int | None
    started_us: int | None
    as_of_us: int | None  # what is due by then and not delivered is overdue
    moves: int  # of the clock
    deliveries: int
    per_second: float | None  # deliveries, between the first and the last


class Header(Struct, kw_only=True):
    """What was measured, where, under which clock, and how it was computed."""

    title: str
    version: str  # of mocketmq
    spark: str
    created_wall_us: int
    is_performance: bool  # every clock ran at its own pace and was never moved
    method: Literal["exact", "bins"]
    error: float  # of percentiles: 0, or 0.001 of the value
    on_time_us: int  # a delivery is on time up to here
    cutoffs_us: list[int]  # of ``Lateness.within``
    runs: list[Run]
    warnings: list[str]  # sentences

    @property
    def load(self) -> float | None:
        """Deliveries per second while runs went on; None if no run says."""
        runs = [(run.deliveries, run.per_second) for run in self.runs if run.per_second]
        return sum(count for count, _ in runs) / sum(count / rate for count, rate in runs) if runs else None


class Drop(Struct, kw_only=True):
    """Rows that could not be used."""

    reason: str
    rows: int


class BrokenSource(Struct, kw_only=True):
    """A file or directory that could not be read, and why."""

    source: str
    reason: str


class Quality(Struct, kw_only=True):
    """What the data was like. Rows with odd times are kept; dropped rows count nowhere else."""

    read: int
    kept: int
    dropped: list[Drop]
    skewed: int  # born after they were stored, by the producer's clock
    disorder: list[Drop]  # stages in an impossible order
    broken: list[BrokenSource]


class Lateness(Struct, kw_only=True):
    """How late the deliveries of one group were. Times are null where nothing was measured.

    What is overdue counts with how late it is so far. What was forced does not count.
    """

    dimension: Dimension
    name: str
    delay: str | None  # of a level, such as 10s
    measured: int
    overdue: int  # of them not delivered
    early: int
    on_time: int  # neither early nor later than ``Header.on_time_us``
    on_time_share: float | None
    min_us: int | None
    mean_us: float | None
    max_us: int | None
    percentiles: dict[str, int | None]  # p50 to p99.9, and what thresholds ask for; null: too few rows
    within: list[int]  # not early, and up to each of ``Header.cutoffs_us``: cumulative


class Reconciliation(Struct, kw_only=True):
    """What became of the messages of one group: sent = delivered + pending + cancelled + expired + lost."""

    dimension: Dimension
    name: str
    delay: str | None
    sent: int
    delivered: int  # messages, each once
    pending: int
    cancelled: int
    expired: int
    lost: int
    repeats: int  # deliveries beyond a message's first
    forced: int  # of those delivered
    overdue: int  # of those pending
    is_silent: bool  # it owes something for longer than on_time_us, and nothing came since that was due


class Stage(Struct, kw_only=True):
    """One stage of the way of a message, over all messages of a group that have both its ends.

    ``total`` is the time outside of the delay that was asked for, born to acknowledged, of the messages that
    have all stages; ``complete_sum_us`` of the other stages are over the same messages and add up to it.
    """

    dimension: Dimension  # total, level or scheme
    name: str
    stage: Literal[StageName, "total"]
    count: int
    mean_us: float | None
    p50_us: int | None  # of coarse bins: up to 1.6 % above the value
    p99_us: int | None  # the same
    max_us: int | None
    complete: int
    complete_sum_us: int


class Instant(Struct, kw_only=True):
    """Deliveries that were visible in one step of ``Timeline``."""

    at_us: int  # where the step begins
    count: int
    p50_us: int | None
    p99_us: int | None
    max_us: int | None


class Cell(Struct, kw_only=True):
    """One cell of the heat map: so many deliveries of a step were so late."""

    at_us: int
    low_us: int  # from here; below 0 is early
    high_us: int  # up to, and not with, here
    count: int


class Marker(Struct, kw_only=True):
    """A start of a broker, or a move of its clock."""

    kind: Literal["start", "move"]
    run: str
    at_us: int
    to_us: int  # of a move; ``at_us`` again for a start


class Timeline(Struct, kw_only=True):
    """Lateness over time, by the broker's clock."""

    step_us: int
    instants: list[Instant]
    cells: list[Cell]
    markers: list[Marker]
    markers_left_out: int  # beyond the first thousand


class Herd(Struct, kw_only=True):
    """All seconds in which from ``due_low`` to ``due_high`` deliveries were due, and how late those were."""

    due_low: int
    due_high: int
    seconds: int
    deliveries: int
    mean_us: float
    p50_max_us: int  # of the latest delivery of each second: the median
    max_us: int


class Disorder(Struct, kw_only=True):
    """Deliveries of a level that came after one that was due later."""

    run: str
    level: int
    deliveries: int
    violations: int


class Worst(Struct, kw_only=True):
    """One of the latest deliveries, or of what is overdue."""

    run: str
    state: str
    message_id: str
    topic: str
    queue_id: int | None
    queue_offset: int | None
    scheme: str
    level: int | None
    attempt: int
    lateness_us: int
    born_us: int | None
    stored_us: int | None
    due_us: int
    picked_us: int | None
    delivered_us: int | None
    pulled_us: int | None
    acked_us: int | None


class SpectrumPoint(Struct, kw_only=True):
    """So many per cent of all are not later than this."""

    percentile: float  # 0 to 100
    value_us: int
    count: int  # that are not later


class Spectrum(Struct, kw_only=True):
    """The whole distribution of a group, for a chart with a logarithmic axis of percentiles."""

    dimension: Dimension
    name: str
    points: list[SpectrumPoint]


class Judgement(Struct, kw_only=True):
    """A threshold, and whether it passed."""

    text: str
    passed: bool
    actual: str  # as the threshold writes it: 12.3ms, 99.95%, 0; or why there is none
    reason: str  # a sentence


class Side(Struct, kw_only=True):
    """One of the reports of a comparison, the baseline first."""

    name: str
    header: Header
    spectra: list[Spectrum]  # the total's, and each level's


class Change(Struct, kw_only=True):
    """One figure of one group in every side; ``deltas`` and ``ratios`` are to the baseline.

    Null where there is none. Durations in microseconds, shares from 0 to 1.
    """

    dimension: Dimension
    name: str
    delay: str | None
    metric: str  # measured, on_time_share, early, p50, …, max, lost
    values: list[float | None]
    deltas: list[float | None]
    ratios: list[float | None]


class Comparison(Struct, kw_only=True):
    """This report beside others."""

    sides: list[Side]
    differences: list[str]  # of the headers, a sentence each
    is_performance: bool
    changes: list[Change]
    judgements: list[Judgement]  # of fail-if rules


class Report(Struct, kw_only=True):
    """A lateness report."""

    schema_version: str = SCHEMA_VERSION
    header: Header
    passed: bool
    judgements: list[Judgement]
    quality: Quality
    lateness: list[Lateness]  # the total, all levels, schemes, profiles, topics, runs
    reconciliation: list[Reconciliation]  # the total, all levels, schemes, runs
    stages: list[Stage]
    timeline: Timeline
    herds: list[Herd]
    disorder: list[Disorder]
    worst: list[Worst]
    spectra: list[Spectrum]
    comparison: Comparison | None = None
