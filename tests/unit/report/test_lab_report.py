"""The report of a lab: its JSON with the schema, its page and its Markdown."""

import json
import re
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # comes with schemathesis
import msgspec
from msgspec.structs import replace

from mocketmq_report.lab.charts import lab_charts
from mocketmq_report.lab.html import lab_html, size
from mocketmq_report.lab.making import lab_json, write_lab
from mocketmq_report.lab.markdown import lab_markdown
from mocketmq_report.lab.schema import LAB
from mocketmq_report.schema import schema, text
from tests.support.labs import cluster, sample_lab

FILE = Path(__file__).parents[3] / "docs" / "lab.schema.json"
LAB_REPORT = sample_lab()


def test_schema_file_matches_the_code() -> None:
    assert FILE.read_text() == text(LAB), "python -m mocketmq_report.lab.schema > docs/lab.schema.json"
    jsonschema.Draft202012Validator.check_schema(schema(LAB))


def test_schema_accepts_only_lab_reports() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(FILE.read_text()))
    made = json.loads(lab_json(LAB_REPORT))
    validator.validate(made)
    validator.validate(made | {"schema_version": "1.9", "weather": "fine"})
    assert not validator.is_valid(made | {"schema_version": "2.0"})
    assert not validator.is_valid({name: each for name, each in made.items() if name != "subjects"})


def test_every_output_format_is_written(tmp_path: Path) -> None:
    page = Path(write_lab(LAB_REPORT, str(tmp_path / "out")))
    assert {each.name for each in page.parent.iterdir()} == {"lab.html", "lab.json", "lab.md"}
    assert page.read_text().startswith("<!doctype html>")


def test_page_has_every_chart_and_escapes_names() -> None:
    page = lab_html(LAB_REPORT)
    assert "<img" not in page
    assert "\x1b" not in page
    assert "sorted is left out: rocksdict is not installed" in page
    assert "RocketMQ V4_9_7 tells it to ±1ms" in page
    specs = json.loads(re.findall(r'id="specs">(.*?)</script>', page)[0])
    assert list(specs) == ["spectrum", "time", "throughput", "start", "memory", "disk"]
    assert set(specs) == set(re.findall(r'<figure id="chart-(\w+)">', page))


def test_a_cluster_has_no_charts_of_unmeasured_figures() -> None:
    lab = replace(LAB_REPORT, subjects=[cluster()], left_out=[])
    assert [chart.name for chart in lab_charts(lab)] == ["spectrum"]
    assert 'id="pending"' not in lab_html(lab)
    assert "| pending |" not in lab_markdown(lab)


def test_the_markdown_has_the_tables() -> None:
    shown = lab_markdown(LAB_REPORT)
    assert "| levels | 2,000 | 0 | 0 | 800µs | 1.6ms | 8ms | – | 16ms |" in shown
    assert "| levels | 5s | 2,000 | 0 | 0 | 800µs |" in shown
    assert "| levels | 5,000/s | 9,876/s | 8ms | 16ms | 80ms | – | 160ms |" in shown
    assert "| levels | 100,000 | 480ms | 64.0 MB | 40 B | 80.0 MB | 800 B |" in shown
    assert "<img" not in shown


def test_sizes_have_units() -> None:
    assert [size(each) for each in (None, 870, -3_000, 12_345_678, 2e9)] == [
        *("–", "870 B", "-3.0 kB", "12.3 MB", "2.0 GB")
    ]


def test_report_survives_a_round_trip() -> None:
    assert msgspec.json.decode(lab_json(LAB_REPORT), type=type(LAB_REPORT)) == LAB_REPORT
