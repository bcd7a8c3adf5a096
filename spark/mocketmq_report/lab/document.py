"""The report of a lab as data: what ``lab.json`` holds. Its JSON schema is ``docs/lab.schema.json``.

The page and the Markdown are made from this data. Durations and instants are microseconds (``_us``), sizes
are bytes. Lateness comes from lateness reports of the runs' ledgers; a percentile is nearest-rank. Missing
measurements are null.
"""

from typing import Final, Literal

from msgspec import Struct

from mocketmq_report.document import Spectrum

SCHEMA_VERSION: Final = "1.0"
"""The minor number rises when fields are added or may be null, the major when they change or vanish."""


class Load(Struct, kw_only=True):
    """The load, which was the same for every subject."""

    rate: int  # messages per second
    seconds: int
    delays: list[str]  # delays of the messages in rotation, such as 5s
    size: int  # the size of a body
    herd: int  # messages due at one instant
    in_flight: int  # the number of concurrent sends while saves were counted
    pending: list[int]  # pending messages at each start
    delay_sync: str  # when the schemes sync their files: always, interval or never


class Machine(Struct, kw_only=True):
    """The machine of the lab."""

    host: str
    cores: int
    python: str
    system: str
    load_average: list[float]  # the load averages of 1, 5 and 15 minutes at the end
    directory: str  # the directory of the data


class DelayLateness(Struct, kw_only=True):
    """The lateness of a subject's deliveries of one delay; ``of`` is ``all`` or the delay."""

    of: str
    measured: int
    overdue: int  # measured but not delivered
    early: int
    mean_us: float | None
    p50_us: int | None
    p90_us: int | None
    p99_us: int | None  # null for fewer than 100 deliveries; p99.9 needs 1,000
    p999_us: int | None
    max_us: int | None


class TimelineStep(Struct, kw_only=True):
    """The deliveries of one step of time since the first delivery."""

    after_us: int
    count: int
    p50_us: int | None  # null for a single delivery
    max_us: int


class HerdRun(Struct, kw_only=True):
    """Messages due at one instant, and their deliveries."""

    messages: int
    per_second: float | None  # deliveries per second, from the due instant to the last delivery
    late: DelayLateness


class GrowthStep(Struct, kw_only=True):
    """The start of a broker with a number of pending messages, which is 0 in the first step."""

    pending: int
    start_us: int  # from the start of its process until it was ready
    memory_bytes: int | None  # the memory of the process when ready
    disk_bytes: int  # the disk space of the data directory
    memory_each: float | None  # for each pending message, in addition to a broker without any
    disk_each: float | None  # for each pending message, in addition to a broker without any


class Subject(Struct, kw_only=True):
    """A delay scheme in brokers of its own, or a cluster."""

    name: str
    kind: Literal["scheme", "cluster"]
    version: str
    lateness: list[DelayLateness]  # lateness over all deliveries, then per delay
    lateness_error_us: int  # maximum error of a lateness value
    spectrum: Spectrum | None  # lateness distribution over all deliveries
    timeline: list[TimelineStep]
    saves_per_second: float | None
    herd: HerdRun | None
    growth: list[GrowthStep]
    notes: list[str]  # sentences


class LeftOut(Struct, kw_only=True):
    """A requested subject that was not measured."""

    name: str
    reason: str


class LabReport(Struct, kw_only=True):
    """A lab: the same load over several subjects."""

    schema_version: str = SCHEMA_VERSION
    title: str
    version: str  # the version of mocketmq
    spark: str  # the version of Spark, or none
    created_wall_us: int
    machine: Machine
    load: Load
    subjects: list[Subject]
    left_out: list[LeftOut]
