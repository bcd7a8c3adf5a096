"""The report as data: what ``report.json`` holds. Its JSON schema is ``docs/report.schema.json``.

HTML, Markdown, JUnit XML and the terminal's table are made from this data. Durations and instants are
microseconds (``_us``); instants are epoch time by the broker's clock, or by the wall clock if the name says
``wall``. A percentile is nearest-rank: the 99th is the least value that 99 % of all values do not exceed.
"""

from typing import Final, Literal, get_args

from msgspec import Struct

SCHEMA_VERSION: Final = "1.4"
"""The minor number rises when fields are added or may be null, the major when they change or vanish."""

Dimension = Literal["total", "level", "scheme", "profile", "topic", "broker", "run"]
"""Groupings of deliveries. A group's name is the level's number, the scheme's name and so on."""

StageDimension = Literal["total", "level", "scheme", "group"]
"""Groupings of stages; ``group`` is a consumer group."""

StageName = Literal["born-stored", "due-picked", "picked-delivered", "delivered-pulled", "pulled-acked"]
"""The stages of a message in order, each named by its begin and end."""
STAGES: Final[dict[StageName, tuple[str, str]]] = {
    stage: (f"{begin}_us", f"{end}_us") for stage in get_args(StageName) for begin, end in [stage.split("-")]
}
"""The ledger's columns with begin and end of each stage."""


class Run(Struct, kw_only=True):
    """One start of a broker. Texts that an external file lacks are ``unknown``."""

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
    as_of_us: int | None  # undelivered messages due by then are overdue
    moves: int  # moves of the clock
    deliveries: int
    per_second: float | None  # deliveries per second, from the first to the last


class Header(Struct, kw_only=True):
    """What was measured, where, under which clock, and how it was computed."""

    title: str
    version: str  # the version of mocketmq
    spark: str
    created_wall_us: int
    is_performance: bool  # every clock was real and never moved
    method: Literal["exact", "bins"]
    error: float  # the maximum error of percentiles: 0, or 0.001 of the value
    on_time_us: int  # a delivery is on time if it is neither early nor more than this late
    cutoffs_us: list[int]  # the limits of ``Lateness.within``
    runs: list[Run]
    warnings: list[str]  # sentences

    @property
    def load(self) -> float | None:
        """Deliveries per second over all runs with a known rate, weighted by duration; None without these."""
        runs = [(run.deliveries, run.per_second) for run in self.runs if run.per_second]
        return sum(count for count, _ in runs) / sum(count / rate for count, rate in runs) if runs else None


class Drop(Struct, kw_only=True):
    """Unusable rows."""

    reason: str
    rows: int


class BrokenSource(Struct, kw_only=True):
    """An unreadable file or directory, with the reason."""

    source: str
    reason: str


class Quality(Struct, kw_only=True):
    """The quality of the data. Rows with odd times are kept; dropped rows count nowhere else."""

    read: int
    kept: int
    dropped: list[Drop]
    skewed: int  # rows born after they were stored, by the producer's clock
    disorder: list[Drop]  # stages in an impossible order
    broken: list[BrokenSource]


class Lateness(Struct, kw_only=True):
    """The lateness of the deliveries of one group. Times are null if nothing was measured.

    Overdue messages count with their lateness so far. Forced deliveries do not count.
    """

    dimension: Dimension
    name: str
    delay: str | None  # the delay of a level, such as 10s
    measured: int
    overdue: int  # measured but not delivered
    early: int
    on_time: int  # neither early nor more than ``Header.on_time_us`` late
    on_time_share: float | None
    min_us: int | None
    mean_us: float | None
    max_us: int | None
    percentiles: dict[str, int | None]  # p50 to p99.9, and those in thresholds; null for too few rows
    within: list[int]  # deliveries not early and at most each of ``Header.cutoffs_us`` late


class Reconciliation(Struct, kw_only=True):
    """The outcomes of the messages of one group: sent = delivered + pending + cancelled + expired + lost."""

    dimension: Dimension
    name: str
    delay: str | None
    sent: int
    delivered: int  # messages, each counted once
    pending: int
    cancelled: int
    expired: int
    lost: int
    repeats: int  # deliveries after a message's first one
    forced: int  # delivered messages whose delivery was forced
    overdue: int  # pending messages that are overdue
    is_silent: bool  # nothing delivered since the oldest overdue message became due, more than on_time_us ago


class Stage(Struct, kw_only=True):
    """One stage, over all messages of a group with a begin and an end of the stage.

    Stages of consumers exclude the time that moves of the clock skipped. ``total`` is the time from born to
    acknowledged without this time and without the requested delay, over the messages that have all stages.
    The other stages' ``complete_sum_us`` cover the same messages, and add up to the sum of ``total``.
    """

    dimension: StageDimension  # a consumer group has only the stages of consumers
    name: str
    stage: Literal[StageName, "total"]
    count: int
    mean_us: float | None
    p50_us: int | None  # from coarse bins: up to 1.6 % too high
    p99_us: int | None  # from coarse bins: up to 1.6 % too high
    max_us: int | None
    complete: int
    complete_sum_us: int


class Instant(Struct, kw_only=True):
    """The deliveries of one step of a ``Timeline``."""

    at_us: int  # start of the step
    count: int
    p50_us: int | None
    p99_us: int | None
    max_us: int | None


class Cell(Struct, kw_only=True):
    """One cell of the heat map: a count of deliveries by step and lateness."""

    at_us: int
    low_us: int  # inclusive; below 0 is early
    high_us: int  # exclusive
    count: int


class Marker(Struct, kw_only=True):
    """A start of a broker, or a move of its clock."""

    kind: Literal["start", "move"]
    run: str
    at_us: int
    to_us: int  # the clock after a move; ``at_us`` for a start


class Timeline(Struct, kw_only=True):
    """Lateness over time, by the broker's clock."""

    step_us: int
    instants: list[Instant]
    cells: list[Cell]
    markers: list[Marker]
    markers_left_out: int  # the number of markers beyond the first thousand


class Herd(Struct, kw_only=True):
    """The seconds in which ``due_low`` to ``due_high`` deliveries were due, and their lateness."""

    due_low: int
    due_high: int
    seconds: int
    deliveries: int
    mean_us: float
    p50_max_us: int  # the median of the greatest lateness of each second
    max_us: int


class Disorder(Struct, kw_only=True):
    """The deliveries of a level or another scheme, and how many followed a delivery that was due later.

    A message stored after its due time counts as due at its store time.
    """

    run: str
    scheme: str = "levels"  # the only scheme in version 1.1
    level: int | None  # null for schemes without levels, such as start-deliver times
    deliveries: int
    violations: int


class Worst(Struct, kw_only=True):
    """One of the deliveries or overdue messages with the greatest lateness."""

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


CauseName = Literal["fault", "overdue", "stored", "line", "waking", "written", "unknown", "absent", "slow"]
"""``fault``: an injected fault. The other causes in order, of late deliveries: not delivered, stored after
the due time, behind others due in the same second, the timer woke late, written slowly, unknown; and at
consumers: no consumer was pulling, or the consumer was slow."""


class StruckRequests(Struct, kw_only=True):
    """The consumers' requests into which a fault was injected, or the fault's outages."""

    do: str  # what the fault did, such as refuse, late, never, close or broker-away
    operation: str  # receive or ack; empty for an outage
    group: str  # the consumer group; empty if unknown
    count: int
    away_us: int | None  # total length of the outages; null for requests


class CauseGroup(Struct, kw_only=True):
    """A consumer group to which messages came late for one cause."""

    name: str
    messages: int
    max_us: int


class CauseShare(Struct, kw_only=True):
    """The share of a fault, or of a consumer, in the time from delivered to acknowledged."""

    by: Literal["fault", "consumer"]
    share: float  # the share of the time of all messages of the cause
    max_us: int  # the longest time for one message


class Cause(Struct, kw_only=True):
    """A cause of late messages: their longest stage, or a fault. Each late message has one cause.

    A delivery is late if its lateness exceeds ``Header.on_time_us``. A message is late to its consumer if it
    was acknowledged later than ``Header.on_time_us`` after its delivery. Time that moves of the clock skipped
    counts only while a fault delayed the message.
    """

    at: Literal["delivery", "consumer"]
    cause: CauseName
    fault: str  # the fault's name, or empty; it is the cause only if it took at least half of the time
    messages: int
    share: float  # the share of all late messages at this place
    max_us: int  # lateness, or the time from delivered to acknowledged
    due_together: int  # the largest number of messages due in the same second
    struck: list[StruckRequests] = []  # consumers' requests that this fault hit; none in version 1.1
    groups: list[CauseGroup] = []  # consumer groups, the most frequent first; none before version 1.4
    shares: list[CauseShare] = []  # if both a fault and a consumer caused it; none before version 1.4


class SpectrumPoint(Struct, kw_only=True):
    """A point of a distribution: ``percentile`` per cent of all deliveries are at most ``value_us`` late."""

    percentile: float  # 0 to 100
    value_us: int
    count: int  # the number of deliveries at most this late


class Spectrum(Struct, kw_only=True):
    """The whole distribution of a group, for a chart with a logarithmic axis of percentiles."""

    dimension: Dimension
    name: str
    points: list[SpectrumPoint]


class Judgement(Struct, kw_only=True):
    """The result of a threshold."""

    text: str
    passed: bool
    actual: str  # the value as in a threshold: 12.3ms, 99.95%, 0; or why there is none
    reason: str  # a sentence


class Side(Struct, kw_only=True):
    """One of the reports of a comparison, the baseline first."""

    name: str
    header: Header
    spectra: list[Spectrum]  # the spectra of the total and of each level


class Change(Struct, kw_only=True):
    """One figure of one group on every side; ``deltas`` and ``ratios`` are relative to the baseline.

    Missing values are null. Durations are in microseconds, shares from 0 to 1.
    """

    dimension: Dimension
    name: str
    delay: str | None
    metric: str  # measured, on_time_share, early, p50, …, max, lost
    values: list[float | None]
    deltas: list[float | None]
    ratios: list[float | None]


class Comparison(Struct, kw_only=True):
    """A comparison of this report with others."""

    sides: list[Side]
    differences: list[str]  # the differences between the headers, as sentences
    is_performance: bool
    changes: list[Change]
    judgements: list[Judgement]  # the results of fail-if rules


VerdictName = Literal["refused", "at once", "rounded", "held up"]
"""Another system's treatment of a delay. A delay may be both rounded and held up."""


class DelayLimitsExample(Struct, kw_only=True):
    """A message whose delay the system would have changed."""

    message_id: str | None  # null if the ledger lacks it
    run: str
    topic: str
    stored_us: int
    delay_us: int  # the requested delay
    granted_us: int | None  # the delay in the other system; null if refused
    words: str | None  # the text of the refusal


class DelayLimitsVerdict(Struct, kw_only=True):
    """The messages of one verdict, and how much later or earlier they would have been due.

    For refused messages, this is the excess over the longest delay. For ``at once``, it is negative.
    """

    verdict: VerdictName
    messages: int
    p50_us: int
    max_us: int  # the furthest move
    examples: list[DelayLimitsExample]  # the worst first


class DelayLimitsFindings(Struct, kw_only=True):
    """Another system's treatment of the delays that producers requested, by its delay limits."""

    name: str
    title: str
    delays: int  # the number of delays of first attempts
    delayed: int  # neither refused nor delivered at once
    verdicts: list[DelayLimitsVerdict]  # the verdicts that occur


class Report(Struct, kw_only=True):
    """A lateness report."""

    schema_version: str = SCHEMA_VERSION
    header: Header
    passed: bool
    judgements: list[Judgement]
    quality: Quality
    lateness: list[Lateness]  # the total, all levels, schemes, profiles, topics, brokers, runs
    reconciliation: list[Reconciliation]  # the total, all levels, schemes, runs
    stages: list[Stage]
    timeline: Timeline
    herds: list[Herd]
    disorder: list[Disorder]
    worst: list[Worst]
    spectra: list[Spectrum]
    causes: list[Cause] = []  # the most frequent first; none in version 1.0
    comparison: Comparison | None = None
    delay_limits: DelayLimitsFindings | None = None  # with --delay-limits; none before version 1.3
