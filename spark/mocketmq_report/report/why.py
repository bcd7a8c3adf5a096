"""Describes the causes of lateness: the number of late messages, and a bar for each cause."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from mocketmq_report import figures
from mocketmq_report.document import Cause, CauseName, Report

_BLOCKS: Final = 20
"""Length in characters of a bar of 100 %."""
_COLORS: Final[dict[CauseName, str]] = {
    "fault": "var(--early)",
    "overdue": "var(--bad)",
    "stored": "var(--c0)",
    "line": "var(--c1)",
    "waking": "var(--c2)",
    "written": "var(--c3)",
    "unknown": "var(--faint)",
    "absent": "var(--c4)",
    "slow": "var(--c5)",
}

_AWAY: Final = {"broker-away": "the broker was down", "name-server-away": "the name server was down"}
_STRUCK: Final = {
    "refuse": "refused",
    "late": "answered late",
    "never": "never answered",
    "close": "cut off",
    "twice": "answered twice",
    "broker-away": "cut off",
}
_DOWN: Final = " down"
"""End of the ledger's name for the downtime of a broker. Names of fault rules have no spaces."""
_PARTS: Final = 3
"""Maximum number of kinds of requests listed for a fault."""


class Reason(NamedTuple):
    """A cause in words, with its share of the late messages."""

    words: str
    messages: str
    share: str
    width: float  # length of the bar in per cent
    color: str

    @property
    def bar(self) -> str:
        """The share as a bar of characters."""
        return "█" * max(1, round(self.width / 100 * _BLOCKS))


class Why(NamedTuple):
    """A count of late messages, and their causes, the most frequent first."""

    what: str
    reasons: list[Reason]


def why(report: Report) -> Iterator[Why]:
    """Describe the causes of late deliveries, and of messages that were late to their consumers."""
    limit = figures.duration(report.header.on_time_us)
    measured = sum(row.measured for row in report.lateness if row.dimension == "total")
    delivered = sum(row.delivered for row in report.reconciliation if row.dimension == "total")
    places = (
        ("delivery", measured, "delivery", "deliveries", f"more than {limit} late"),
        (
            "consumer",
            delivered,
            "delivered message",
            "delivered messages",
            f"not acknowledged within {limit}",
        ),
    )
    for at, total, thing, things, how in places:
        found = [cause for cause in report.causes if cause.at == at]
        if found:
            late = sum(cause.messages for cause in found)
            part = f" ({figures.share(late / total)})" if 0 < late <= total else ""
            of_all = f"{figures.count(total)} {thing if total == 1 else things}"
            what = f"{figures.count(late)} of {of_all}{part} {'was' if late == 1 else 'were'} {how}"
            yield Why(what, [_reason(cause, report) for cause in found])


def moved(report: Report) -> str | None:
    """Make a sentence about moved clocks and clocks that were not real; None if there were none."""
    if report.header.is_performance:
        return None
    if is_all_zero(report):
        return "The clock was moved or not real: every message was delivered at its own due time, late by 0."
    return (
        "Moved clock: not a performance measurement. A clock was moved or not real: times show the order of"
        " events, not the speed of the broker."
    )


def is_all_zero(report: Report) -> bool:
    """Return whether deliveries were measured, and all of them had a lateness of 0."""
    return any(row.dimension == "total" and row.min_us == row.max_us == 0 for row in report.lateness)


def _reason(cause: Cause, report: Report) -> Reason:
    return Reason(
        figures.harmless(_words(cause, report)),
        figures.count(cause.messages),
        figures.share(round(cause.share, 3)),
        100 * cause.share,
        _COLORS[cause.cause],
    )


def _words(cause: Cause, report: Report) -> str:
    others = max(cause.due_together - 1, 0)
    said: dict[CauseName, str] = {
        "fault": f"hit the injected fault {cause.fault}{_struck(cause)}",
        "overdue": "waited in the store, not delivered",
        "stored": "stored only after the due time",
        "line": f"queued behind up to {figures.count(others)} others due in the same second",
        "waking": "chosen late: the timer woke late",
        "written": "written slowly",
        "unknown": "late in an unknown stage",
        "absent": f"waited while nobody was pulling{_groups(cause, 'for')}",
        "slow": f"with a slow consumer{_groups(cause, 'of')}",
    }
    words = said[cause.cause]
    if cause.cause == "fault" and cause.fault.endswith(_DOWN):
        words = f"waited while {cause.fault.removesuffix(_DOWN)} was down"
    silent = [row for row in report.reconciliation if row.dimension == "level" and row.is_silent]
    if cause.cause == "overdue" and silent:
        names = figures.listed(figures.group(row.dimension, row.name, row.delay) for row in silent)
        words += f"; silent: {names}"
    return f"{words}, up to {figures.duration(cause.max_us)}{_shares(cause)}"


def _groups(cause: Cause, preposition: str) -> str:
    """Name the consumers: ``of group billing``, or ``of groups billing (90%) and audit (10%)``."""
    if len(cause.groups) == 1:
        return f" {preposition} group {cause.groups[0].name}"
    named = [f"{one.name} ({figures.share(round(one.messages / cause.messages, 3))})" for one in cause.groups]
    return f" {preposition} groups {figures.listed(named, _PARTS)}" if named else ""


def _shares(cause: Cause) -> str:
    """Write the shares of the time that a fault and the consumer took, the greater share first."""
    names = {"fault": "the fault", "consumer": "the consumer"}
    if cause.cause != "fault":
        names["fault"] = f"the injected fault {cause.fault}{_struck(cause)}"
    parts = [
        f"{figures.share(round(one.share, 3))} by {names[one.by]}, up to {figures.duration(one.max_us)}"
        for one in sorted(cause.shares, key=lambda one: -one.share)
    ]
    return f" ({'; '.join(parts)})" if parts else ""


def _struck(cause: Cause) -> str:
    """Describe the effects of the fault, after a colon: the length of outages, or counts of requests."""
    parts = []
    for one in cause.struck:
        if one.away_us is not None:
            parts.append(f"{_AWAY.get(one.do, one.do)} for {figures.duration(one.away_us)}")
            continue
        things = f"{one.operation}{'s' * (one.count > 1)}{f' of {one.group}' if one.group else ''}"
        parts.append(f"{figures.count(one.count)} {things} {_STRUCK.get(one.do, one.do)}")
    return f": {figures.listed(parts, _PARTS)}" if parts else ""
