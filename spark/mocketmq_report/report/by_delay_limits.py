"""Describes how another system would have treated the delays, for all forms of a report."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from mocketmq_report import figures
from mocketmq_report.document import DelayLimitsExample, DelayLimitsFindings, DelayLimitsVerdict, VerdictName

COLUMNS: Final = ("", ">delays", ">share", ">by p50", ">by max", "the worst")
"""Columns of the table of verdicts. A ``>`` marks numbers."""
_BY: Final[dict[VerdictName, str]] = {
    "refused": "too long",
    "at once": "earlier",
    "rounded": "later",
    "held up": "later",
}


class VerdictRow(NamedTuple):
    """A verdict in words."""

    verdict: str
    delays: str
    share: str
    p50: str
    most: str
    worst: str


def sentence(findings: DelayLimitsFindings) -> str:
    """Make a sentence about the outcome of all delays."""
    delayed, delays = figures.count(findings.delayed), figures.count(findings.delays)
    said = f"By its delay limits, {findings.title} would have delayed {delayed} of {delays} messages"
    return f"{said}, all as requested" if not findings.verdicts else said


def verdict_rows(findings: DelayLimitsFindings) -> Iterator[VerdictRow]:
    """Make a row for each verdict that occurs."""
    for verdict in findings.verdicts:
        yield VerdictRow(
            verdict.verdict,
            figures.count(verdict.messages),
            figures.share(verdict.messages / findings.delays),
            _by(verdict, verdict.p50_us),
            _by(verdict, verdict.max_us),
            figures.listed((figures.harmless(_example(each)) for each in verdict.examples), 2),
        )


def _by(verdict: DelayLimitsVerdict, us: int) -> str:
    return f"{figures.duration(abs(us))} {_BY[verdict.verdict]}"


def _example(example: DelayLimitsExample) -> str:
    """Describe a message, its delay and its outcome."""
    to = "refused" if example.granted_us is None else figures.duration(example.granted_us)
    name = example.message_id or f"one stored at {figures.instant(example.stored_us)}"
    return f"{name} of {example.topic}: {figures.duration(example.delay_us)} → {to}"
