"""docs/faults.md lists every kind of fault with its fields, and every field that says where and when."""

import re
from pathlib import Path
from typing import get_args

import pytest

from mocketmq.errors import InvalidArgumentError
from mocketmq.faults.rule import FaultRule, Kind, Operation, check_fields

PAGE = (Path(__file__).parents[3] / "docs" / "faults.md").read_text()
OWN = {"error": "SYSTEM_BUSY", "by": "1s", "stage": "after", "back_after": "1s", "times": 1, "per_second": 1}
"""A value for each field that only some kinds of fault have and that says how."""
OF_ALL = {"do", "name"}
"""Fields that the text describes."""


def rows(title: str) -> dict[str, str]:
    """Return the rows of the first table of a section: the last cells by the first."""
    table = PAGE.partition(f"\n## {title}\n")[2].partition("\n|")[2].partition("\n\n")[0]
    cells = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return {each[0]: each[-1] for each in cells}


def takes(kind: str, field: str) -> bool:
    """Whether this kind of fault has the field."""
    try:
        check_fields(FaultRule(do=kind, **{field: OWN[field]}))  # type: ignore[arg-type]
    except InvalidArgumentError as error:
        return error.field != field
    return True


def test_every_kind_is_listed() -> None:
    assert sorted(rows("What goes wrong: `do`")) == sorted(f"`{kind}`" for kind in get_args(Kind))


@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_kind_is_listed_with_its_fields(kind: str) -> None:
    listed = set(re.findall("`([a-z_]+)`", rows("What goes wrong: `do`")[f"`{kind}`"]))
    assert listed & OWN.keys() == {field for field in OWN if takes(kind, field)}


def test_every_field_that_says_where_or_when_is_listed() -> None:
    listed = {
        name for title in ("Where", "When") for cell in rows(title) for name in re.findall("`(\\w+)`", cell)
    }
    assert listed == {*FaultRule.__struct_fields__} - OWN.keys() - OF_ALL


def test_every_operation_of_all_doors_is_listed() -> None:
    assert {*get_args(Operation)} <= set(re.findall("`([a-z-]+)`", rows("Where")["`operation`"]))
