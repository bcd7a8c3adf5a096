import html
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace

from mocketmq_report.document import BrokenSource, Drop, Judgement, Report
from mocketmq_report.report.markdown import LONGEST, markdown
from tests.support import golden
from tests.support.reports import sample_comparison, sample_report, simulated

GOLDEN = Path(__file__).with_name("golden")
EXACT = simulated("exact", "exact", False, 4)
SAMPLE = sample_report(comparison=sample_comparison())

_RENDERER = MarkdownIt("commonmark").enable("table")
_TAG = re.compile(r"<!-- -->|</?([a-z]+[0-9]?)[^>]*>")


def rendered(report: Report) -> str:
    return str(_RENDERER.render(markdown(report)))


def tables(page: str) -> list[list[list[str]]]:
    """Return the text of every cell."""
    return [
        [
            [html.unescape(_TAG.sub("", cell)) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
            for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
        ]
        for table in re.findall(r"<table>(.*?)</table>", page, re.DOTALL)
    ]


def only(**changes: Any) -> Report:
    """Return a short report with these changes."""
    nothing = replace(EXACT, judgements=[], lateness=[], reconciliation=[], worst=[])
    return replace(nothing, **changes)


def test_comment_matches_the_golden_file() -> None:
    golden.check(GOLDEN / "report.md", markdown(sample_report()))
    golden.check(GOLDEN / "comparison.md", markdown(SAMPLE))


def test_the_verdict_comes_first_and_failures_before_passes() -> None:
    page = rendered(SAMPLE)
    assert page.startswith("<h2>Lateness of nightly: failed 5 of 9 thresholds and 2 of 4 rules</h2>")
    judged = [row for table in tables(page) if table[0][0] in ("threshold", "fail if") for row in table[1:]]
    assert [row[1] for row in judged] == [*["failed"] * 5, *["passed"] * 4, *["failed"] * 2, *["passed"] * 2]
    assert SAMPLE.comparison
    expected = {
        (one.text, one.actual, one.reason) for one in [*SAMPLE.judgements, *SAMPLE.comparison.judgements]
    }
    assert {(text, actual, reason) for text, _, actual, reason in judged} == expected


def test_every_level_has_its_row() -> None:
    (levels,) = [table for table in tables(rendered(EXACT)) if len(table) == 19 and "p50" in table[0]]
    assert levels[0] == ["", "measured", "on time", "early", "overdue", "p50", "p90", "p99", "p99.9", "max"]
    assert levels[1][0] == "total"
    assert [row[0].split()[1] for row in levels[2:-1]] == [str(n) for n in range(1, 18) if n != 13]
    assert levels[-1][:2] == ["start-deliver time", "266"]
    assert "2 without deliveries</summary>" in markdown(EXACT)
    assert "level 13 (9m), level 18 (2h)" in markdown(EXACT)
    assert levels[3][:5] == ["level 2 (5s)", "147", "99.32%", "1", "0"]


def test_every_cell_is_drawn_at_its_place() -> None:
    for table in tables(rendered(SAMPLE)):
        assert {len(row) for row in table} == {len(table[0])}


def test_moved_clock_carries_a_remark() -> None:
    sentence = "Moved clock: not a performance measurement."
    assert sentence in rendered(sample_report())
    assert sentence not in rendered(EXACT)


def test_silent_levels_and_warnings_are_reported() -> None:
    page = rendered(sample_report())
    assert "<strong>Silent</strong> although messages are overdue: level 16 (30m)." in page
    assert "<li>the clock of run 20261120T232006.000000Z was moved" in page
    assert "Silent" not in rendered(only())


def test_a_comparison_shows_the_total_and_the_levels_with_deliveries() -> None:
    found = tables(rendered(SAMPLE))
    (total,) = [table for table in found if table[0] == ["total", "exact", "rocketmq4", "change", "ratio"]]
    assert ["p50", "1.09ms", "55.6ms", "+54.6ms", "50.9x"] in total
    assert ["on time share", "98.48%", "95.67%", "-2.81 points", "0.97x"] in total
    (levels,) = [table for table in found if table[0] == ["", "", "exact", "rocketmq4", "change", "ratio"]]
    assert {row[1] for row in levels[1:]} == {"p50", "p99", "max"}
    assert not [row for row in levels if row[0] == "level 13 (9m)"]
    assert [row[1] for row in levels if row[0] == "level 17 (1h)"] == ["p50", "max"]


@pytest.mark.parametrize(
    "text",
    [
        "a|b",
        "`tick`",
        "`a|b`",
        "``",
        "a\\|b",
        "a\\",
        "\\`",
        "<script>alert(1)</script>",
        "<!-- x",
        "</details>",
        "&lt;",
        "[a](http://b)",
        "![a](b)",
        "**a** _b_ ~~c~~ $d$",
        "a_b_c",
        "_|_",
        "__0__",
        "@everyone #1 owner/repo#2",
        "# no heading",
        "- no list",
        " padded ",
        "größer 😀",
    ],
)
def test_text_of_users_is_shown_unchanged(text: str) -> None:
    judgement = Judgement(text=text, passed=False, actual=text, reason=text)
    lateness = [replace(row, name=text) for row in EXACT.lateness if row.dimension == "topic"]
    worst = [replace(EXACT.worst[0], topic=text, message_id=text, scheme=text, level=None)]
    page = rendered(only(judgements=[judgement], lateness=lateness, worst=worst))
    cells = {cell.strip() for table in tables(page) for row in table for cell in row}
    assert {text.strip(), f"topic {text}".strip()} <= cells
    assert "<script" not in page
    assert "<a " not in page
    assert "<img" not in page
    assert page.count("<details>") == page.count("</details>") == 4
    found = [row for table in tables(page) for row in table if text.strip() in [cell.strip() for cell in row]]
    assert sorted(len(row) for row in found) == [4, 6]


def test_text_creates_no_mention_or_issue_link() -> None:
    text = "@everyone and #1"
    judgement = Judgement(text=text, passed=True, actual=text, reason=text)
    comment = markdown(
        only(judgements=[judgement], header=replace(EXACT.header, title=text, warnings=[text]))
    )
    assert f"`{text}`" in comment
    assert re.findall(r"[@#](?=\w)", comment.replace(f"`{text}`", "")) == []


@given(st.text(max_size=60) | st.text(alphabet="`|\\<>&*_[]()#@!~ \n\r\tax", max_size=30))
def test_no_text_breaks_a_table(text: str) -> None:
    judgement = Judgement(text=text, passed=False, actual=text, reason=text)
    quality = replace(
        EXACT.quality,
        dropped=[Drop(reason=text, rows=1)],
        disorder=[],
        broken=[BrokenSource(source=text, reason=text)],
    )
    page = rendered(only(judgements=[judgement] * 2, quality=quality))
    assert [len(row) for table in tables(page)[:1] for row in table] == [4, 4, 4]
    assert page.count("<li>") == 4
    assert {tag for tag in _TAG.findall(page) if tag} <= {
        *("h2", "p", "br", "table", "thead", "tbody", "tr", "th", "td", "code", "strong"),
        *("details", "summary", "ul", "li"),
    }


def test_control_characters_are_escaped_and_long_texts_cut() -> None:
    judgement = Judgement(text="a\x1b[2J\u202eb\n", passed=False, actual="0", reason="x" * 5_000)
    comment = markdown(only(judgements=[judgement]))
    assert "`a\\x1b[2J\\u202eb\\n`" in comment
    assert f"| {'x' * 599}… |" in comment


def test_comment_never_exceeds_the_limit_of_github() -> None:
    worst = [replace(EXACT.worst[0], topic="|" * 500, message_id="é" * 500)] * 50
    broken = [BrokenSource(source="<" * 300, reason=">" * 300)] * 500
    topics = [row for row in EXACT.lateness if row.dimension == "topic"]
    for report in (
        replace(EXACT, worst=worst),
        replace(EXACT, quality=replace(EXACT.quality, broken=broken)),
        replace(EXACT, lateness=[*EXACT.lateness, *(replace(topics[0], name="|" * 600) for _ in range(500))]),
        replace(EXACT, header=replace(EXACT.header, warnings=["<" * 600] * 100)),
        replace(
            SAMPLE, judgements=[Judgement(text="|" * 600, passed=False, actual="", reason="|" * 600)] * 500
        ),
    ):
        comment = markdown(report)
        assert len(comment) <= LONGEST
        assert comment.endswith("</details>\n") or comment.endswith("it is in the report.\n")
        assert comment.count("<details>") == comment.count("</details>")
        assert "\n\n## " not in comment


def test_long_tables_show_fifty_rows_and_the_rest_as_a_number() -> None:
    topic = next(row for row in EXACT.lateness if row.dimension == "topic")
    rows = [replace(topic, name=f"topic{number}") for number in range(1_100)]
    found = next(table for table in tables(rendered(only(lateness=rows))) if len(table) > 20)
    assert len(found) == 52
    assert found[-1][0] == "and 1,050 more"
    broken = [BrokenSource(source=f"run{number}", reason="it is cut off") for number in range(60)]
    page = rendered(only(quality=replace(EXACT.quality, broken=broken)))
    assert page.count("it is cut off") == 50
    assert "<li>and 10 more unreadable sources</li>" in page
