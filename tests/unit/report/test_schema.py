import json
import re
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # comes with schemathesis
import msgspec
import pytest

from mocketmq_report import schema
from mocketmq_report.document import SCHEMA_VERSION
from tests.support.reports import sample_comparison, sample_report

FILE = Path(__file__).parents[3] / "docs" / "report.schema.json"
VALIDATOR = jsonschema.Draft202012Validator(json.loads(FILE.read_text()))
REPORT = msgspec.to_builtins(sample_report(comparison=sample_comparison()))


def test_schema_file_matches_the_code() -> None:
    assert FILE.read_text() == schema.text(), "python -m mocketmq_report.schema > docs/report.schema.json"


def test_schema_is_a_valid_json_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema.schema())


def test_a_report_is_valid_with_a_comparison_and_without() -> None:
    for report in (sample_report(comparison=sample_comparison()), sample_report()):
        VALIDATOR.validate(json.loads(msgspec.json.encode(report)))


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.23"])
def test_later_additions_are_valid(version: str) -> None:
    VALIDATOR.validate(REPORT | {"schema_version": version, "weather": "fine"})
    assert SCHEMA_VERSION.startswith("1.")


@pytest.mark.parametrize(
    "changes",
    [
        {"schema_version": "2.0"},
        {"schema_version": "1"},
        {"passed": "yes"},
        {"timeline": None},
        {"judgements": [{"text": "early == 0"}]},
        {"header": REPORT["header"] | {"created_wall_us": 1.5}},
        {"header": REPORT["header"] | {"method": "guessed"}},
        {"lateness": [REPORT["lateness"][0] | {"dimension": "planet"}]},
    ],
)
def test_other_json_is_invalid(changes: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid(REPORT | changes)


@pytest.mark.parametrize("field", sorted(set(REPORT) - {"causes", "comparison", "delay_limits"}))
def test_fields_of_every_version_are_required(field: str) -> None:
    assert not VALIDATOR.is_valid({name: value for name, value in REPORT.items() if name != field})


def test_descriptions_of_fields_come_from_comments() -> None:
    made = schema.schema()
    source = (Path(schema.__file__).parent / "document.py").read_text()
    meant = [
        field["description"]
        for definition in made["$defs"].values()
        for field in definition.get("properties", {}).values()
        if "description" in field
    ]
    assert sorted(meant) == sorted(re.findall(r"^    .*  # (.*)$", source, re.MULTILINE))
    assert all(definition["description"] for definition in made["$defs"].values())
    assert made["$defs"]["Run"]["properties"]["as_of_us"]["description"] == (
        "undelivered messages due by then are overdue"
    )
    assert made["description"].endswith("the first rises when fields change or go.")
