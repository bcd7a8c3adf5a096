"""What a lab measured of each subject; the report is made of it and of the ledgers."""

from pathlib import Path
from typing import Literal, NamedTuple


class Growth(NamedTuple):
    """A broker that starts with so many pending messages; memory None where the system does not tell."""

    pending: int
    start_us: int  # from the start of the process until it is ready
    memory_bytes: int | None  # of the process, once it is ready
    disk_bytes: int  # of the data directory


class Measured(NamedTuple):
    """A subject: a delay scheme or a cluster. What cannot be measured from outside is None or empty."""

    name: str
    kind: Literal["scheme", "cluster"]
    version: str
    ledger: Path  # of the messages that were sent at the load's rate
    lateness_error_us: int
    delays: dict[str, str]  # what the ledger calls each delay: a topic, or the number of a level
    notes: list[str]
    saves_per_second: float | None = None
    herd: Path | None = None  # the ledger of messages that were due at one instant
    growth: tuple[Growth, ...] = ()  # the first with none pending


class Skipped(NamedTuple):
    """A subject that was not measured, and why."""

    name: str
    reason: str


class Results(NamedTuple):
    """What was measured, in the order of the subjects, and what was not."""

    measured: list[Measured]
    skipped: list[Skipped]
