"""The measurements of a lab. The report combines them with the ledgers."""

from pathlib import Path
from typing import Literal, NamedTuple


class Growth(NamedTuple):
    """A start of a broker with pending messages. Memory is None if the system does not report it."""

    pending: int
    start_us: int  # from the start of the process until it is ready
    memory_bytes: int | None  # of the process, once it is ready
    disk_bytes: int  # of the data directory


class MeasuredSubject(NamedTuple):
    """A delay scheme or a cluster. A figure that cannot be measured from outside is None or empty."""

    name: str
    kind: Literal["scheme", "cluster"]
    version: str
    ledger: Path  # ledger of the messages sent at the load's rate
    lateness_error_us: int
    delays: dict[str, str]  # the delays by their names in the ledger, which are topics or level numbers
    notes: list[str]
    saves_per_second: float | None = None
    herd: Path | None = None  # the ledger of messages that were due at one instant
    growth: tuple[Growth, ...] = ()  # the first start has no pending messages


class Skipped(NamedTuple):
    """A subject that was not measured, and why."""

    name: str
    reason: str


class Results(NamedTuple):
    """All measurements in the order of the subjects, and the skipped subjects."""

    measured: list[MeasuredSubject]
    skipped: list[Skipped]
