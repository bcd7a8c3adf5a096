"""Causes of late deliveries: activities between the due time and the moment when a consumer had the message.

Each instant of a delivery's lateness is assigned to one cause, the first active one of ``CAUSES``. The cause
with the largest part of the lateness is the cause of the delivery.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

BUSY: Final = "is busy"
WAITS: Final = "waits for a CPU"
BLOCKED: Final = "is blocked"
STATES: Final = (BUSY, WAITS, BLOCKED)

GARBAGE: Final = "garbage collection"
RESTART: Final = "the log begins anew, and its header is synced"
STOPPED: Final = "commits stop for the last copy of the log"
COMMIT: Final = "a commit, that is a write to the log,"
TRANSACTION: Final = "a transaction"
READ: Final = "a read of the store"
LOOP: Final = "the event loop"
TO_THREAD: Final = "hand-over to a thread"
TO_LOOP: Final = "hand-over back to the event loop"
CLIENT: Final = "client: "
COPY: Final = "beside it: a copy of the log"
SYNC: Final = "beside it: a sync of the log"
CPU_PRESSURE: Final = "beside it: the machine's CPUs are short"
IO_PRESSURE: Final = "beside it: the machine waits for disks"
UNEXPLAINED: Final = "unexplained"

CAUSES: Final = (
    *(GARBAGE, RESTART, STOPPED),
    *(f"{work} {state}" for work in (COMMIT, TRANSACTION, READ, LOOP) for state in (BLOCKED, WAITS, BUSY)),
    *(TO_THREAD, TO_LOOP, f"{CLIENT}{GARBAGE}"),
    *(f"{CLIENT}{LOOP} {state}" for state in STATES),
    *(COPY, SYNC, CPU_PRESSURE, IO_PRESSURE),
)
"""Causes, nearest first. Other activity explains only lateness without a nearer cause."""


class Mark(NamedTuple):
    """An activity with its begin and end, in microseconds of the wall clock."""

    kind: str
    begin_us: int
    end_us: int


class Cause(NamedTuple):
    """The cause of a late delivery, and the microseconds of lateness that it explains."""

    kind: str
    us: int


def cause_of(due_us: int, got_us: int, marks: Iterable[Mark], usual_us: int) -> Cause:
    """Return the cause of a delivery's lateness beyond ``usual_us``."""
    found = dict(_shares(due_us, got_us, marks))
    found[UNEXPLAINED] = max(found[UNEXPLAINED] - usual_us, 0)
    kind = max(found, key=lambda each: found[each])
    return Cause(kind, found[kind])


def _shares(due_us: int, got_us: int, marks: Iterable[Mark]) -> Mapping[str, int]:
    """Return the part of the time that each kind explains, and the unexplained part."""
    by_kind: dict[str, list[Mark]] = {kind: [] for kind in CAUSES}
    for mark in marks:
        if mark.begin_us < got_us and mark.end_us > due_us:
            by_kind[mark.kind].append(mark)
    left: Sequence[tuple[int, int]] = [(due_us, got_us)]
    shares: dict[str, int] = {}
    for kind, some in by_kind.items():
        before_us = _length(left)
        for mark in some:
            left = [*_without(left, mark)]
        shares[kind] = before_us - _length(left)
    return shares | {UNEXPLAINED: _length(left)}


def _without(spans: Iterable[tuple[int, int]], mark: Mark) -> Iterable[tuple[int, int]]:
    for begin, end in spans:
        if begin < min(end, mark.begin_us):
            yield begin, min(end, mark.begin_us)
        if max(begin, mark.end_us) < end:
            yield max(begin, mark.end_us), end


def _length(spans: Iterable[tuple[int, int]]) -> int:
    return sum(end - begin for begin, end in spans)
