import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mocketmq_report.document import BrokenSource, Judgement, Report
from mocketmq_report.report.junit import junit
from tests.support import golden
from tests.support.reports import sample_comparison, sample_report, simulated

GOLDEN = Path(__file__).with_name("golden")
EXACT = simulated("exact", "exact", False, 4)


def parsed(report: Report) -> ET.Element:
    return ET.fromstring(junit(report).encode())  # noqa: S314 - our own


def test_document_matches_the_golden_file() -> None:
    golden.check(GOLDEN / "junit.xml", junit(sample_report(comparison=sample_comparison())))


def test_each_threshold_and_rule_is_a_case_and_the_counts_agree() -> None:
    report = sample_report(comparison=sample_comparison())
    assert report.comparison
    root = parsed(report)
    judged = [*report.judgements, *report.comparison.judgements]
    cases = [case for case in root.iter("testcase") if case.get("classname") != "lateness.data"]
    assert [case.get("name") for case in cases] == [one.text for one in judged]
    assert [case.find("failure") is None for case in cases] == [one.passed for one in judged]
    for case, one in zip(cases, judged, strict=True):
        assert next(iter(case)).text == f"{one.actual}: {one.reason}"
    for counted in (root, root[0]):
        assert counted.get("tests") == str(len(list(root.iter("testcase"))))
        assert counted.get("failures") == str(len(list(root.iter("failure"))))
        assert counted.get("skipped") == str(len(list(root.iter("skipped")))) == "1"
        assert counted.get("errors") == "0"
    assert [case.get("classname") for case in root.iter("testcase")] == [
        *["lateness.data"] * 2,
        *["lateness.thresholds"] * len(report.judgements),
        *["lateness.rules"] * len(report.comparison.judgements),
    ]


def test_data_is_a_case_and_unread_sources_are_skipped_ones() -> None:
    quality = replace(
        EXACT.quality, read=12_345, kept=12_000, broken=[BrokenSource(source="a & b", reason="it is <cut>")]
    )
    data, broken = parsed(replace(EXACT, quality=quality)).iter("testcase")
    assert data.findtext("system-out") == "12,000 of 12,345 rows could be used"
    skipped = broken.find("skipped")
    assert skipped is not None
    assert (broken.get("name"), skipped.get("message")) == ("a & b", "it is <cut>")


def test_suite_has_name_and_time_of_the_report() -> None:
    suite = parsed(EXACT)[0]
    assert (suite.get("name"), suite.get("timestamp")) == ("exact", "2026-11-21T00:01:30.000")


@given(
    st.text() | st.text(st.characters(max_codepoint=160) | st.sampled_from("\ud800\ufffe\uffff\U0010ffff"))
)
def test_text_of_users_is_well_formed(text: str) -> None:
    judgement = Judgement(text=text, passed=False, actual=text, reason=text)
    report = replace(
        EXACT,
        judgements=[judgement, replace(judgement, passed=True)],
        header=replace(EXACT.header, title=text),
        quality=replace(EXACT.quality, broken=[BrokenSource(source=text, reason=text)]),
    )
    assert len(list(parsed(report).iter("testcase"))) == 4


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b\x1b\x7f", "a\\x00b\\x1b\x7f"),
        ("\ufffe\ud800", "\\ufffe\\ud800"),
        ("tab\tline\nend", "tab\tline\nend"),
        ("größer 😀 <&>\"'", "größer 😀 <&>\"'"),
    ],
)
def test_only_characters_invalid_in_xml_are_escaped(text: str, shown: str) -> None:
    judgement = Judgement(text=text, passed=False, actual="0", reason="")
    case = parsed(replace(EXACT, judgements=[judgement])).find(
        ".//testcase[@classname='lateness.thresholds']"
    )
    assert case is not None
    assert case.get("name") == shown
