"""The page of a report is small, loads nothing, and never executes data as code."""

import json
import re
from collections import Counter
from importlib import resources
from typing import Any

import pytest
from msgspec.structs import replace

from mocketmq_report import document as d
from mocketmq_report.report.html import html
from tests.support.reports import sample_comparison, sample_report
from tests.unit.report.pages import Page, full, page, read

HOSTILE = "</script><img src=x onerror=alert(1)>\x00\x1b[31m\u202e&amp;\ud800"
SHOWN = "</script><img src=x onerror=alert(1)>\\x00\\x1b[31m\\u202e&amp;\\ud800"


def test_page_has_no_external_references() -> None:
    for tag, attributes in read().elements:
        for name in ("src", "href", "action", "data", "srcset", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith("#") or value == "data:,", (tag, name, value)
    style = resources.files("mocketmq_report.report").joinpath("report.css").read_text()
    assert style in full()
    assert "url(" not in style
    assert "@import" not in style


def test_policy_forbids_loading_resources() -> None:
    policy = next(
        a["content"] for _, a in read().elements if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert not {"connect-src", "font-src", "frame-src"} & set(rules)
    assert {source for rule in rules.values() for source in rule.split()} == {
        *("'none'", "'unsafe-inline'", "data:"),
    }


def test_anchors_have_unique_targets() -> None:
    names = Counter(attributes["id"] for _, attributes in read().elements if "id" in attributes)
    assert set(names.values()) == {1}
    for found in (read(), page(judgements=[])):
        names = Counter(attributes["id"] for _, attributes in found.elements if "id" in attributes)
        for _, attributes in found.elements:
            if (href := attributes.get("href") or "").startswith("#"):
                assert names[href[1:]] == 1, href


def test_page_size_is_limited() -> None:
    assert len(full().encode()) < 1_500_000


def test_page_of_three_hundred_steps_is_little_larger() -> None:
    report = sample_report()
    start, step = report.timeline.instants[0].at_us, 60_000_000
    timeline = replace(
        report.timeline,
        instants=[
            d.Instant(at_us=start + n * step, count=400, p50_us=900, p99_us=90_000, max_us=9_000_000)
            for n in range(300)
        ],
        cells=[
            d.Cell(at_us=start + n * step, low_us=10 * row, high_us=10 * row + 10, count=10)
            for n in range(300)
            for row in range(40)
        ],
    )
    assert len(html(replace(report, timeline=timeline)).encode()) < 1_000_000


def test_every_colour_of_a_chart_is_in_the_style() -> None:
    style = resources.files("mocketmq_report.report").joinpath("report.css").read_text()
    used = set(re.findall(r"var\((--[a-z0-9-]+)\)", full()))
    assert used <= set(re.findall(r"^ +(--[a-z0-9-]+):", style, re.MULTILINE))


def test_each_chart_has_a_place_a_description_and_its_data() -> None:
    specs = json.loads(read().scripts[0])
    places = [a for _, a in read().elements if a.get("class") == "chart"]
    figures_ = [(a["id"] or "").removeprefix("chart-") for tag, a in read().elements if tag == "figure"]
    assert list(specs) == [*figures_[1:], figures_[0]]  # the chart of the comparison is first on the page
    assert len(figures_) == len(places) == 8
    assert all(a["role"] == "img" and "Chart: " in (a["aria-label"] or "") for a in places)
    assert "JavaScript, which draws the charts, is switched off" in read().words[""]


@pytest.mark.parametrize("where", ["topic", "title", "message_id", "run", "reason", "side", "threshold"])
def test_text_of_data_is_escaped(where: str) -> None:
    report = sample_report()
    lateness = [replace(row, name=HOSTILE) if row.dimension == "topic" else row for row in report.lateness]
    run = replace(report.header.runs[0], run=HOSTILE, host=HOSTILE, source=HOSTILE)
    worst = [replace(row, message_id=HOSTILE, topic=HOSTILE) for row in report.worst]
    side = sample_comparison().sides[0]
    changes: dict[str, dict[str, Any]] = {
        "topic": {"lateness": lateness},
        "title": {"header": replace(report.header, title=HOSTILE, warnings=[HOSTILE])},
        "message_id": {"worst": worst},
        "run": {"header": replace(report.header, runs=[run])},
        "reason": {
            "quality": replace(report.quality, broken=[d.BrokenSource(source=HOSTILE, reason=HOSTILE)])
        },
        "side": {"comparison": replace(sample_comparison(), sides=[side, replace(side, name=HOSTILE)])},
        "threshold": {
            "judgements": [d.Judgement(text=HOSTILE, passed=False, actual=HOSTILE, reason=HOSTILE)]
        },
    }
    found = page(**changes[where])
    tags = Counter(tag for tag, _ in found.elements)
    assert tags["script"] == 3
    assert tags["img"] == 0
    words = " ".join(found.words.values())
    assert SHOWN in words
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e\ud800]", words)
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]


def test_chart_data_survives_embedding() -> None:
    report = sample_report()
    markers = [
        d.Marker(kind="start", run=HOSTILE, at_us=at, to_us=at) for at in [report.timeline.markers[0].at_us]
    ]
    text = html(replace(report, timeline=replace(report.timeline, markers=markers)))
    text.encode()
    found = Page(text)
    assert "<" not in found.scripts[0]
    marks = [mark for mark in json.loads(found.scripts[0])["time"]["marks"] if "run" in mark["fields"]]
    runs = {row[mark["fields"].index("run")] for mark in marks for row in mark["rows"]}
    assert runs == {SHOWN}
