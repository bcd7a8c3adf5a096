"""Say what another system would have made of the delays in a ledger, in words for every form of a report."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from mocketmq_report import figures
from mocketmq_report.document import ContractExample, ContractFindings, ContractVerdict, VerdictName

COLUMNS: Final = ("", ">delays", ">share", ">by p50", ">by max", "the worst")
"""Of the table of verdicts. Those whose name begins with ``>`` hold numbers."""
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


def sentence(findings: ContractFindings) -> str:
    """What would have become of all delays."""
    delayed, delays = figures.count(findings.delayed), figures.count(findings.delays)
    said = (
        f"By the contract {findings.name}, {findings.title} would have delayed {delayed} of {delays} messages"
    )
    return f"{said}, each as it was asked to" if not findings.verdicts else said


def verdict_rows(findings: ContractFindings) -> Iterator[VerdictRow]:
    """A row for each verdict that occurs."""
    for verdict in findings.verdicts:
        yield VerdictRow(
            verdict.verdict,
            figures.count(verdict.messages),
            figures.share(verdict.messages / findings.delays),
            _by(verdict, verdict.p50_us),
            _by(verdict, verdict.max_us),
            figures.listed((figures.harmless(_example(each)) for each in verdict.examples), 2),
        )


def _by(verdict: ContractVerdict, us: int) -> str:
    return f"{figures.duration(abs(us))} {_BY[verdict.verdict]}"


def _example(example: ContractExample) -> str:
    """The message, its delay and what would have become of it."""
    to = "refused" if example.granted_us is None else figures.duration(example.granted_us)
    name = example.message_id or f"one stored at {figures.instant(example.stored_us)}"
    return f"{name} of {example.topic}: {figures.duration(example.delay_us)} → {to}"
