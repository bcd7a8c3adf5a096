"""Say what is behind the lateness: how many messages were late, and for which causes, with a bar for each."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from mocketmq_report import figures
from mocketmq_report.document import Cause, CauseName, Report

_BLOCKS: Final = 20
"""Characters of a bar that stands for all."""
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

_AWAY: Final = {"broker-away": "the broker was away", "name-server-away": "the name server was away"}
_STRUCK: Final = {
    "refuse": "refused",
    "late": "answered late",
    "never": "never answered",
    "close": "cut off",
    "twice": "answered twice",
    "broker-away": "cut off",
}
_PARTS: Final = 3
"""What a fault struck is listed up to so many."""


class Reason(NamedTuple):
    """A cause in words, with its share of the late ones."""

    words: str
    messages: str
    share: str
    width: float  # per cent of a bar
    color: str

    @property
    def bar(self) -> str:
        """The share as characters."""
        return "█" * max(1, round(self.width / 100 * _BLOCKS))


class Why(NamedTuple):
    """What was late, and the reasons, the most frequent first."""

    what: str
    reasons: list[Reason]


def why(report: Report) -> Iterator[Why]:
    """What is behind late deliveries, and behind messages that came late to their consumers."""
    limit = figures.duration(report.header.on_time_us)
    measured = sum(row.measured for row in report.lateness if row.dimension == "total")
    delivered = sum(row.delivered for row in report.reconciliation if row.dimension == "total")
    places = (
        ("delivery", measured, "deliveries", f"more than {limit} late"),
        ("consumer", delivered, "delivered messages", f"not acknowledged within {limit}"),
    )
    for at, total, things, how in places:
        found = [cause for cause in report.causes if cause.at == at]
        if found:
            late = sum(cause.messages for cause in found)
            part = f" ({figures.share(late / total)})" if 0 < late <= total else ""
            what = f"{figures.count(late)} of {figures.count(total)} {things}{part} were {how}"
            yield Why(what, [_reason(cause, report) for cause in found])


def moved(report: Report) -> str | None:
    """What a clock that was moved, or is not real, means for this report; None if none was."""
    if report.header.is_performance:
        return None
    if is_all_zero(report):
        return "The clock was moved or not real: every message was delivered at its own due time, late by 0."
    return (
        "Moved clock: not a performance measurement. A clock was moved or not real: times say in which order"
        " things happened, not how fast this broker is."
    )


def is_all_zero(report: Report) -> bool:
    """Whether deliveries were measured, and all of them were late by 0."""
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
        "fault": f"met the fault {cause.fault}, on purpose{_struck(cause)}",
        "overdue": "waited in the store, not delivered",
        "stored": "stored only after the due time",
        "line": f"stood in line behind up to {figures.count(others)} others due in the same second",
        "waking": "chosen late: the timer woke late",
        "written": "written slowly",
        "unknown": "late in a stage that the data does not tell",
        "absent": "waited while nobody was pulling",
        "slow": "with a slow consumer",
    }
    words = said[cause.cause]
    silent = [row for row in report.reconciliation if row.dimension == "level" and row.is_silent]
    if cause.cause == "overdue" and silent:
        names = figures.listed(figures.group(row.dimension, row.name, row.delay) for row in silent)
        words += f"; silent: {names}"
    return f"{words}, up to {figures.duration(cause.max_us)}"


def _struck(cause: Cause) -> str:
    """What the fault struck, after a colon: how long it was away, or how many requests it met."""
    parts = []
    for one in cause.struck:
        if one.away_us is not None:
            parts.append(f"{_AWAY.get(one.do, one.do)} for {figures.duration(one.away_us)}")
            continue
        things = f"{one.operation}{'s' * (one.count > 1)}{f' of {one.group}' if one.group else ''}"
        parts.append(f"{figures.count(one.count)} {things} {_STRUCK.get(one.do, one.do)}")
    return f": {figures.listed(parts, _PARTS)}" if parts else ""
