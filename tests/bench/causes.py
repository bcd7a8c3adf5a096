"""Why deliveries were late: what went on between their due time and the moment in which a consumer had them.

Each instant of a delivery's lateness goes to one cause: the first of ``CAUSES`` that was going on. The cause
of the delivery is the one that has most of it.
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
"""The nearest first: whatever goes on beside a delivery explains only what nothing else does."""


class Mark(NamedTuple):
    """Something that went on, in microseconds of the wall clock."""

    kind: str
    begin_us: int
    end_us: int


class Cause(NamedTuple):
    """Why one delivery was late, and how many microseconds of its lateness that was."""

    kind: str
    us: int


def cause_of(due_us: int, got_us: int, marks: Iterable[Mark], usual_us: int) -> Cause:
    """The cause of a delivery. As much of it as is ``usual_us`` needs no explanation."""
    found = dict(_shares(due_us, got_us, marks))
    found[UNEXPLAINED] = max(found[UNEXPLAINED] - usual_us, 0)
    kind = max(found, key=lambda each: found[each])
    return Cause(kind, found[kind])


def _shares(due_us: int, got_us: int, marks: Iterable[Mark]) -> Mapping[str, int]:
    """How much of the time goes to each kind, and how much to none."""
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
