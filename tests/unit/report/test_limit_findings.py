"""Reports' findings on another system's delay limits: known numbers, and the broker's verdicts."""

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
from mocketmq.delay_limits import DELAY_LIMITS, WaitingLine
from mocketmq_report import command
from mocketmq_report.compute.limit_findings import held_us
from mocketmq_report.compute.one_pass import measure
from mocketmq_report.document import DelayLimitsFindings, Report
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
    """Return a message stored ``at_us`` after the start, with its delay."""
    stored = START_US + at_us
    return {
        **{"run": "a1", "message_id": f"M{n}", "parked_offset": n, "delivered_offset": 1_000 + n},
        **{"state": "delivered", "topic": "orders", "scheme": "levels" if level else "wheel"},
        **{"level": level, "attempt": 1, "forced": False, "born_us": stored, "stored_us": stored},
        **{"due_us": stored + delay_us, "picked_us": stored + delay_us, "delivered_us": stored + delay_us},
        **more,
    }


def found(name: str, rows: list[dict[str, Any]]) -> DelayLimitsFindings:
    """Return the findings, which must not depend on how the rows are divided."""
    made = [
        measure(
            ledger_of(rows, RUNS_OF, [], parts), carry_here, (), delay_limits=DELAY_LIMITS[name]
        ).delay_limits
        for parts in (1, 2, 5)
    ]
    assert made[0] is not None
    assert made == [made[0]] * 3
    return made[0]


def told(findings: DelayLimitsFindings) -> dict[str, tuple[int, int, int]]:
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


def test_findings_for_sqs_count_refused_and_rounded_delays() -> None:
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


def test_findings_for_rocketmq_4_name_messages_delivered_at_once() -> None:
    findings = found("rocketmq4", ROWS)
    assert (findings.delays, findings.delayed) == (6, 2)
    assert told(findings) == {"at once": (4, -900 * US_PER_S, -900 * US_PER_S - 1)}
    assert {each.granted_us for each in findings.verdicts[0].examples} == {0}


def test_findings_for_rabbitmq_name_blocked_messages() -> None:
    rows = [
        row(1, 60 * US_PER_S),
        row(2, 5 * US_PER_S, at_us=US_PER_S, level=2),
        row(3, 5 * US_PER_S, at_us=US_PER_S, topic="other"),
        row(4, 50 * US_PER_S, at_us=2 * US_PER_S),
        row(5, 5 * US_PER_S, at_us=60 * US_PER_S),
        row(6, 100 * 86_400 * US_PER_S, at_us=61 * US_PER_S),  # refused, so no message waits for it
        row(7, US_PER_S, at_us=70 * US_PER_S),
        row(8, US_PER_S, at_us=US_PER_S, run="b1"),  # from another store
    ]
    findings = found("rabbitmq", rows)
    assert told(findings)["held up"] == (2, 8 * US_PER_S, 54 * US_PER_S)
    assert told(findings)["refused"][0] == 1
    held = findings.verdicts[-1]
    assert [(each.message_id, each.granted_us) for each in held.examples] == [
        ("M2", 59 * US_PER_S),
        ("M4", 58 * US_PER_S),
    ]


@pytest.mark.parametrize("name", DELAY_LIMITS)
def test_a_random_ledger_is_judged_row_by_row(name: str) -> None:
    delay_limits = DELAY_LIMITS[name]
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
        if has_level and delay_limits.knows_levels:
            continue
        ignored = not has_level and "timer" in delay_limits.ignores
        if delay_limits.is_refused(delay_us, ignored=ignored):
            counts["refused"] += 1
        elif delay_limits.is_at_once(delay_us, ignored=ignored):
            counts["at once"] += 1
        elif not has_level:
            counts["rounded"] += delay_limits.rounded_us(each["stored_us"], each["due_us"]) > each["due_us"]
    findings = found(name, rows)
    assert findings.delays == len(rows)
    numbers = {each.verdict: each.messages for each in findings.verdicts if each.verdict != "held up"}
    assert numbers == {name: count for name, count in counts.items() if count}


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 30), st.integers(1, 60)), max_size=60))
def test_blocked_messages_match_those_of_the_broker(ahead: int, sent: list[tuple[int, int]]) -> None:
    sent.sort()
    stored = np.array([now for now, _ in sent], np.int64)
    due = np.array([now + delay for now, delay in sent], np.int64)
    line = WaitingLine(ahead)
    assert held_us(ahead, stored, due).tolist() == [line.join(now, now + delay) for now, delay in sent]


def test_every_output_format_shows_the_findings() -> None:
    report = sample_report(delay_limits=found("sqs", ROWS))
    sentence = "By its delay limits, Amazon SQS would have delayed 4 of 6 messages"
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
    assert "By its delay limits, Amazon SQS" not in html(sample_report())


def test_delay_limits_without_effect_are_reported_so() -> None:
    report = sample_report(delay_limits=found("aliyun5", ROWS))
    assert "would have delayed 6 of 6 messages, all as requested" in markdown(report)


def test_the_command_judges_a_ledger_and_writes_the_findings(tmp_path: Path) -> None:
    out = tmp_path / "report"
    done = runner().invoke(
        command.report, [str(LEDGER), "--quick", "--delay-limits", "sqs", "--out", str(out)]
    )
    assert done.exit_code == 0, done.output
    assert "By its delay limits, Amazon SQS would have delayed" in done.output
    written = msgspec.json.decode((out / "report.json").read_bytes(), type=Report)
    assert written.delay_limits
    assert written.delay_limits.delays > 0


def test_a_rollup_cannot_be_judged(tmp_path: Path) -> None:
    rollup, out = str(tmp_path / "rollup"), str(tmp_path / "report")
    runner().invoke(command.report, [str(LEDGER), "--quick", "--rollup", rollup, "--out", out])
    done = runner().invoke(command.report, [rollup, "--quick", "--delay-limits", "sqs", "--out", out])
    assert done.exit_code == 3
    assert "a rollup contains none: give the data itself" in done.stderr


@pytest.mark.parametrize("more", [["--delay-limits", "nonsense"], ["--delay-limits", "sqs", "--follow"]])
def test_unknown_system_is_refused_with_the_allowed_names(more: list[str]) -> None:
    done = runner().invoke(command.report, [str(LEDGER), *more])
    assert done.exit_code == 2
    said = " ".join(done.stderr.split())
    assert "cannot be combined with --follow" in said or all(repr(name) in said for name in DELAY_LIMITS)
