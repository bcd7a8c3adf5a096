"""JSON paths that tests may write, and paths that are refused."""

from typing import Any

import pytest

from mocketmq.broker.verification.message_matcher import is_equal
from mocketmq.errors import InvalidArgumentError
from mocketmq.json_path import parse_path, values_at

DOCUMENT: Any = {"order": {"id": 7, "lines": [{"sku": "a"}, {"sku": "b"}], "unit price": 2, "ü.": None}}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$", [DOCUMENT]),
        ("$.order.id", [7]),
        ("$['order'][\"id\"]", [7]),
        ("$.order['unit price']", [2]),
        ("$.order['ü.']", [None]),
        ("$.order.lines[0].sku", ["a"]),
        ("$.order.lines[-1].sku", ["b"]),
        ("$.order.lines[*].sku", ["a", "b"]),
        ("$.*.lines.*.sku", ["a", "b"]),
        ("$.order.lines[2]", []),
        ("$.order.lines[-3]", []),
        ("$.order[0]", []),
        ("$.order.lines.sku", []),
        ("$.order.id.below", []),
    ],
)
def test_a_path_leads_to_values(path: str, found: list[Any]) -> None:
    assert values_at(DOCUMENT, parse_path(path)) == found


@pytest.mark.parametrize(
    "path",
    ["", "order", ".order", "$.", "$..id", "$[", "$[01]", "$[a]", "$[0:1]", "$[?(@.id)]", "$.a b", "$\n"],
)
def test_other_paths_are_refused(path: str) -> None:
    with pytest.raises(InvalidArgumentError, match="json_path"):
        parse_path(path)


def test_json_values_are_equal_as_json_has_them() -> None:
    assert is_equal({"a": [1, {"b": 1.0}]}, {"a": [1.0, {"b": 1}]})
    for one, other in ((True, 1), (0, False), ("1", 1), ([1], [1, 2]), ({"a": 1}, {"b": 1}), (None, 0)):
        assert not is_equal(one, other)
        assert not is_equal([one], [other])
