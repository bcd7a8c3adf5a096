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


def test_the_file_is_what_the_code_makes() -> None:
    assert FILE.read_text() == schema.text(), "python -m mocketmq_report.schema > docs/report.schema.json"


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema.schema())


def test_a_report_is_valid_with_a_comparison_and_without() -> None:
    for report in (sample_report(comparison=sample_comparison()), sample_report()):
        VALIDATOR.validate(json.loads(msgspec.json.encode(report)))


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.23"])
def test_what_is_added_later_is_valid(version: str) -> None:
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
def test_what_is_no_report_is_invalid(changes: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid(REPORT | changes)


@pytest.mark.parametrize("field", sorted(set(REPORT) - {"causes", "comparison", "contract"}))
def test_what_every_version_has_is_required(field: str) -> None:
    assert not VALIDATOR.is_valid({name: value for name, value in REPORT.items() if name != field})


def test_what_fields_mean_is_told_and_no_comment_is_lost() -> None:
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
        "messages due by then and not delivered are overdue"
    )
    assert made["description"].endswith("the first rises when fields change or go.")
