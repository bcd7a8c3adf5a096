"""The report of a lab as data: what ``lab.json`` holds. Its JSON schema is ``docs/lab.schema.json``.

The page and the Markdown are made from this. Durations and instants are microseconds (``_us``), sizes bytes.
Lateness comes from lateness reports of the ledgers that the runs left; a percentile is nearest-rank. What
could not be measured is null.
"""

from typing import Final, Literal

from msgspec import Struct

from mocketmq_report.document import Spectrum

SCHEMA_VERSION: Final = "1.0"
"""The second number rises when fields are added or may be null, the first when they change or go."""


class Load(Struct, kw_only=True):
    """The load, which was the same for every subject."""

    rate: int  # messages a second
    seconds: int
    delays: list[str]  # to which messages were sent in turn, such as 5s
    size: int  # of a body
    herd: int  # messages due at one instant
    in_flight: int  # sends under way while saves were counted
    pending: list[int]  # how many waited at the starts
    delay_sync: str  # when the schemes sync what they save: always, interval or never


class Machine(Struct, kw_only=True):
    """Where it ran."""

    host: str
    cores: int
    python: str
    system: str
    load_average: list[float]  # of 1, 5 and 15 minutes, at the end
    directory: str  # the data was below it


class Late(Struct, kw_only=True):
    """How late a subject's deliveries of one delay were; ``of`` is ``all`` or the delay."""

    of: str
    measured: int
    overdue: int  # of the measured: not delivered
    early: int
    mean_us: float | None
    p50_us: int | None
    p90_us: int | None
    p99_us: int | None  # null: fewer than a hundred deliveries, as the next for a thousand
    p999_us: int | None
    max_us: int | None


class Moment(Struct, kw_only=True):
    """The deliveries of one step of time, counted from the first one."""

    after_us: int
    count: int
    p50_us: int | None  # null: a single delivery
    max_us: int


class HerdRun(Struct, kw_only=True):
    """Messages that were due at one instant, and what became of them."""

    messages: int
    per_second: float | None  # deliveries, from the due instant to the last
    late: Late


class GrowthStep(Struct, kw_only=True):
    """The start of a broker with so many pending messages. The first has none."""

    pending: int
    start_us: int  # from the start of its process until it was ready
    memory_bytes: int | None  # of the process, once it was ready
    disk_bytes: int  # of the data directory
    memory_each: float | None  # for a pending message, beyond a broker with none
    disk_each: float | None  # the same


class Subject(Struct, kw_only=True):
    """A delay scheme in brokers of its own, or a cluster."""

    name: str
    kind: Literal["scheme", "cluster"]
    version: str
    lateness: list[Late]  # of all deliveries, then of each delay
    lateness_error_us: int  # each lateness is right to so much
    spectrum: Spectrum | None  # the distribution of all
    timeline: list[Moment]
    saves_per_second: float | None
    herd: HerdRun | None
    growth: list[GrowthStep]
    notes: list[str]  # sentences


class LeftOut(Struct, kw_only=True):
    """A subject that was asked for and not measured."""

    name: str
    reason: str


class LabReport(Struct, kw_only=True):
    """A lab: the same load over several subjects."""

    schema_version: str = SCHEMA_VERSION
    title: str
    version: str  # of mocketmq
    spark: str  # its version, or none
    created_wall_us: int
    machine: Machine
    load: Load
    subjects: list[Subject]
    left_out: list[LeftOut]
