import io
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.console import Console

from mocketmq_report.document import BrokenSource, Judgement, Report
from mocketmq_report.report.summary_table import summary
from tests.support import golden
from tests.support.reports import sample_comparison, sample_report, simulated

GOLDEN = Path(__file__).with_name("golden")
EXACT = simulated("exact", "exact", False, 4)


def printed(report: Report, width: int = 120, color: bool = False) -> str:
    console = Console(
        file=io.StringIO(),
        width=width,
        highlight=False,
        force_terminal=color,
        color_system="standard" if color else None,
        _environ={},
    )
    console.print(summary(report))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_summary_matches_the_golden_file_and_fits(width: int) -> None:
    text = printed(sample_report(comparison=sample_comparison()), width)
    assert max(map(len, text.splitlines())) <= width
    golden.check(GOLDEN / f"summary-{width}.txt", "".join(f"{line.rstrip()}\n" for line in text.splitlines()))


def test_the_verdict_is_last_and_coloured() -> None:
    failed = printed(sample_report(), color=True)
    assert failed.splitlines()[-1] == "\x1b[1;31mfailed 5 of 9 thresholds\x1b[0m"
    judgement = Judgement(text="early == 0", passed=True, actual="0", reason="")
    passed = printed(replace(EXACT, judgements=[judgement]), color=True)
    assert passed.splitlines()[-1] == "\x1b[1;32mpassed 1 threshold\x1b[0m"


def test_unused_levels_are_left_out_and_missing_thresholds_mentioned() -> None:
    text = printed(EXACT)
    assert "level 12 (8m)" in text
    assert "level 13 (9m)" not in text
    assert "condition" not in text
    assert text.endswith("\nnot judged: there are no thresholds\n")


def test_nonzero_fault_counts_are_red() -> None:
    rows = [row for row in EXACT.lateness if row.name in ("1", "2")]
    lines = printed(replace(EXACT, lateness=rows), color=True).splitlines()
    (one,) = (line for line in lines if line.startswith("level 1 (1s)"))
    (two,) = (line for line in lines if line.startswith("level 2 (5s)"))
    assert "\x1b[1;31m" not in one
    assert two.count("\x1b[1;31m") == 1


def test_data_problems_are_listed_up_to_a_limit() -> None:
    broken = [BrokenSource(source=f"run{number}", reason="it is cut off") for number in range(100)]
    text = printed(replace(EXACT, quality=replace(EXACT.quality, broken=broken)))
    assert text.count("it is cut off") == 7
    assert "not read: run0: it is cut off\n" in text
    assert "dropped 2: due_us is missing\n" in text
    assert "and 95 more, see the report\n" in text
    whole = printed(EXACT)
    assert "silent although messages are overdue: level 16 (30m)\n" in whole
    assert "lost: 1\n" in whole
    assert "no measure of speed" not in whole


def test_text_of_users_is_neither_control_codes_nor_markup() -> None:
    nasty = "[bold]x[/bold]\x1b[2J\n"
    lateness = [replace(row, name=nasty) if row.dimension == "scheme" else row for row in EXACT.lateness]
    judgement = Judgement(text=nasty, passed=False, actual=nasty, reason=nasty)
    comparison = sample_comparison()
    comparison = replace(
        comparison, differences=[nasty], sides=[replace(side, name=nasty) for side in comparison.sides]
    )
    report = replace(
        EXACT,
        header=replace(EXACT.header, title=nasty, warnings=[nasty]),
        lateness=lateness,
        judgements=[judgement, replace(judgement, passed=True)],
        comparison=comparison,
    )
    text = printed(report, 200)
    assert "\x1b" not in text
    assert text.count(r"[bold]x[/bold]\x1b[2J\n") == 12


def test_an_empty_report_is_shown() -> None:
    quality = replace(EXACT.quality, read=0, kept=0, dropped=[], broken=[])
    header = replace(EXACT.header, runs=[])
    empty = replace(EXACT, header=header, quality=quality, lateness=[], reconciliation=[])
    assert "0 deliveries in 0 runs" in printed(empty)


def test_hundred_columns_show_every_percentile() -> None:
    assert [("p99.9" in printed(EXACT, width), "p90" in printed(EXACT, width)) for width in (99, 100)] == [
        (False, False),
        (True, True),
    ]
