"""What reports say of the contract of another system: known numbers, and the verdicts of the broker."""

import io
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.contracts.contract import Waiting
from mocketmq.contracts.systems import CONTRACTS
from mocketmq_report import command
from mocketmq_report.compute.contracted import held_us
from mocketmq_report.compute.one_pass import measure
from mocketmq_report.document import ContractFindings, Report
from mocketmq_report.ledger.work import carry_here
from mocketmq_report.report.html import html
from mocketmq_report.report.markdown import markdown
from mocketmq_report.report.summary_table import summary
from tests.support.command_line import runner
from tests.support.reports import sample_report
from tests.unit.report.test_tables import RUNS_OF, START_US, ledger_of, random_rows

LEDGER = Path(__file__).parents[2] / "spark" / "golden" / "ledger.csv"
HOUR_US = 3_600 * US_PER_S


def row(n: int, delay_us: int, *, at_us: int = 0, level: int | None = None, **more: Any) -> dict[str, Any]:
    """A message that was stored at ``at_us`` after the start, with its delay."""
    stored = START_US + at_us
    return {
        **{"run": "a1", "message_id": f"M{n}", "parked_offset": n, "delivered_offset": 1_000 + n},
        **{"state": "delivered", "topic": "orders", "scheme": "levels" if level else "wheel"},
        **{"level": level, "attempt": 1, "forced": False, "born_us": stored, "stored_us": stored},
        **{"due_us": stored + delay_us, "picked_us": stored + delay_us, "delivered_us": stored + delay_us},
        **more,
    }


def found(name: str, rows: list[dict[str, Any]]) -> ContractFindings:
    """The findings, which are the same however the rows are divided."""
    made = [
        measure(ledger_of(rows, RUNS_OF, [], parts), carry_here, (), contract=CONTRACTS[name]).contract
        for parts in (1, 2, 5)
    ]
    assert made[0] is not None
    assert made == [made[0]] * 3
    return made[0]


def told(findings: ContractFindings) -> dict[str, tuple[int, int, int]]:
    return {each.verdict: (each.messages, each.p50_us, each.max_us) for each in findings.verdicts}


ROWS = [
    row(1, 2 * HOUR_US, level=18),
    row(2, 10 * US_PER_S, level=3),
    row(3, 1_500 * US_PER_MS),
    row(4, 2_250 * US_PER_MS),
    row(5, 900 * US_PER_S),
    row(6, 900 * US_PER_S + 1),
    row(7, 5 * HOUR_US, attempt=2),
    row(8, 5 * HOUR_US, topic="%RETRY%shop"),
    row(9, -US_PER_S),
    row(10, 5 * HOUR_US, stored_us=None),
]


def test_sqs_would_have_refused_two_and_rounded_two() -> None:
    findings = found("sqs", ROWS)
    assert (findings.delays, findings.delayed) == (6, 4)
    assert told(findings) == {"refused": (2, 1, 6_300 * US_PER_S), "rounded": (2, 500_000, 750_000)}
    refused, rounded = findings.verdicts
    assert [(each.message_id, each.granted_us) for each in refused.examples] == [("M1", None), ("M6", None)]
    assert refused.examples[0].words == (
        "Value 7200 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900."
    )
    assert [(each.message_id, each.granted_us) for each in rounded.examples] == [
        ("M4", 3 * US_PER_S),
        ("M3", 2 * US_PER_S),
    ]


def test_rocketmq_4_would_have_delivered_at_once_what_has_no_level() -> None:
    findings = found("rocketmq4", ROWS)
    assert (findings.delays, findings.delayed) == (6, 2)
    assert told(findings) == {"at once": (4, -900 * US_PER_S, -900 * US_PER_S - 1)}
    assert {each.granted_us for each in findings.verdicts[0].examples} == {0}


def test_in_rabbitmq_what_stands_behind_a_longer_delay_would_have_waited() -> None:
    rows = [
        row(1, 60 * US_PER_S),
        row(2, 5 * US_PER_S, at_us=US_PER_S, level=2),
        row(3, 5 * US_PER_S, at_us=US_PER_S, topic="other"),
        row(4, 50 * US_PER_S, at_us=2 * US_PER_S),
        row(5, 5 * US_PER_S, at_us=60 * US_PER_S),
        row(6, 100 * 86_400 * US_PER_S, at_us=61 * US_PER_S),  # refused, so nobody waits for it
        row(7, US_PER_S, at_us=70 * US_PER_S),
        row(8, US_PER_S, at_us=US_PER_S, run="b1"),  # of another store
    ]
    findings = found("rabbitmq", rows)
    assert told(findings)["held up"] == (2, 8 * US_PER_S, 54 * US_PER_S)
    assert told(findings)["refused"][0] == 1
    held = findings.verdicts[-1]
    assert [(each.message_id, each.granted_us) for each in held.examples] == [
        ("M2", 59 * US_PER_S),
        ("M4", 58 * US_PER_S),
    ]


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_random_ledger_is_judged_row_by_row(name: str) -> None:
    contract = CONTRACTS[name]
    rows = [
        each
        for each in random_rows(7, RUNS_OF, 300)
        if each["attempt"] == 1 and each["stored_us"] is not None
    ]
    for n, each in enumerate(rows):
        each["stored_us"] -= n * 20_000_000_000  # up to 70 days
    counts = {"refused": 0, "at once": 0, "rounded": 0}
    for each in rows:
        delay_us, has_level = each["due_us"] - each["stored_us"], each["level"] is not None
        if has_level and contract.knows_levels:
            continue
        ignored = not has_level and "timer" in contract.ignores
        if contract.is_refused(delay_us, ignored=ignored):
            counts["refused"] += 1
        elif contract.is_at_once(delay_us, ignored=ignored):
            counts["at once"] += 1
        elif not has_level:
            counts["rounded"] += contract.rounded_us(each["stored_us"], each["due_us"]) > each["due_us"]
    findings = found(name, rows)
    assert findings.delays == len(rows)
    numbers = {each.verdict: each.messages for each in findings.verdicts if each.verdict != "held up"}
    assert numbers == {name: count for name, count in counts.items() if count}


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 30), st.integers(1, 60)), max_size=60))
def test_a_line_is_held_up_as_the_broker_does_it(ahead: int, sent: list[tuple[int, int]]) -> None:
    sent.sort()
    stored = np.array([now for now, _ in sent], np.int64)
    due = np.array([now + delay for now, delay in sent], np.int64)
    line = Waiting(ahead)
    assert held_us(ahead, stored, due).tolist() == [line.add(now, now + delay) for now, delay in sent]


def test_every_form_of_a_report_says_it() -> None:
    report = sample_report(contract=found("sqs", ROWS))
    sentence = "By the contract sqs, Amazon SQS would have delayed 4 of 6 messages"
    assert sentence in (page := html(report))
    assert "M1 of orders: 2h → refused" in page
    assert "750ms later" in page
    text = markdown(report)
    assert sentence in text
    assert "| refused | 2 |" in text
    out = io.StringIO()
    Console(file=out, width=160).print(summary(report))
    assert sentence in out.getvalue()
    assert "750ms later" in out.getvalue()
    assert "By the contract" not in html(sample_report())


def test_a_contract_that_changes_nothing_says_so() -> None:
    report = sample_report(contract=found("aliyun5", ROWS))
    assert "would have delayed 6 of 6 messages, each as it was asked to" in markdown(report)


def test_the_command_judges_a_ledger_and_writes_the_findings(tmp_path: Path) -> None:
    out = tmp_path / "report"
    done = runner().invoke(command.report, [str(LEDGER), "--quick", "--contract", "sqs", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "By the contract sqs, Amazon SQS would have delayed" in done.output
    written = msgspec.json.decode((out / "report.json").read_bytes(), type=Report)
    assert written.contract
    assert written.contract.delays > 0


def test_a_rollup_cannot_be_judged(tmp_path: Path) -> None:
    rollup, out = str(tmp_path / "rollup"), str(tmp_path / "report")
    runner().invoke(command.report, [str(LEDGER), "--quick", "--rollup", rollup, "--out", out])
    done = runner().invoke(command.report, [rollup, "--quick", "--contract", "sqs", "--out", out])
    assert done.exit_code == 3
    assert "a rollup has none: give the data itself" in done.stderr


@pytest.mark.parametrize("more", [["--contract", "nonsense"], ["--contract", "sqs", "--follow"]])
def test_a_wrong_contract_is_refused_with_what_is_allowed(more: list[str]) -> None:
    done = runner().invoke(command.report, [str(LEDGER), *more])
    assert done.exit_code == 2
    said = " ".join(done.stderr.split())
    assert "give it without --follow" in said or all(repr(name) in said for name in CONTRACTS)
