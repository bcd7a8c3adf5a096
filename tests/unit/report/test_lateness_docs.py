"""The parser knows the examples and metrics in docs/lateness.md, and the page names all metrics."""

import re
from pathlib import Path

import pytest

from mocketmq_report.judge.compare import parse_rule
from mocketmq_report.judge.condition import InvalidThresholdError
from mocketmq_report.judge.metric import METRICS
from mocketmq_report.judge.thresholds import parse

TEXT = (Path(__file__).parents[3] / "docs" / "lateness.md").read_text()
SECTIONS = dict(zip(*[iter(re.split(r"^## (.*)$", TEXT, flags=re.MULTILINE)[1:])] * 2, strict=True))


def examples(section: str) -> list[list[str]]:
    """Return the lines of each block."""
    return [block.splitlines() for block in re.findall(r"```\n(.*?)```", SECTIONS[section], re.DOTALL)]


def test_documented_examples_parse() -> None:
    thresholds, (error,) = examples("Thresholds")
    assert [str(parse(line)) for line in thresholds] == [line.removeprefix("total ") for line in thresholds]
    with pytest.raises(InvalidThresholdError) as caught:
        parse(error.split("'")[1])
    assert str(caught.value) == error
    (rules,) = examples("Comparing")
    assert [parse_rule(line).text for line in rules] == rules


def test_every_metric_is_named() -> None:
    table = "".join(line for line in SECTIONS["Thresholds"].splitlines() if line.startswith("|"))
    named = set(re.findall(r"`([a-z_]+)`", table))
    assert named == {*METRICS, "count"}
