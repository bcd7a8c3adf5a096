"""Positions of values in TOML and JSON texts, compared with what the parsers read there."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.text_positions import (
    json_offsets,
    nearest_offset,
    path_of,
    position_at,
    toml_offsets,
)

TOML = '''\
# a comment with [[messages]] in it
clock = "manual"  # "quoted"
"odd key".'x.y' = [1, [2, "]"], {a = 3}]

[[messages]]
topic = "orders"
delay = "3 weeks"
properties.region = "eu"
body = """
two
lines with ""quotes"" and [brackets]"""

[[messages]]
topic = 'bills'
body_json = {id = 7, tags = ["a", "b"], nested = {deep = true}}
keys = [
  "a",  # the first
  "b",
]

  [messages.properties]
  note = "it's"

[[messages.inner]]
n = 1
[[messages.inner]]
n = 2

[last]
at = 2026-01-01T00:00:00Z
'''


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Any:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from leaves(one, (*path, name))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from leaves(one, (*path, index))
    else:
        yield path, value


def test_every_value_of_a_toml_text_is_where_the_parser_reads_it() -> None:
    offsets = toml_offsets(TOML)
    found = list(leaves(tomllib.loads(TOML)))
    assert len(found) == 20
    for path, value in found:
        rest = TOML[offsets[path] :]
        ends = [end for end in range(1, len(rest) + 1) if reads_as(rest[:end], value)]
        assert ends, (path, rest[:30])


def reads_as(text: str, value: object) -> bool:
    try:
        return bool(tomllib.loads(f"value = {text}")["value"] == value)
    except ValueError:
        return False


def test_positions_count_lines_and_characters_from_one() -> None:
    offsets = toml_offsets(TOML)
    assert position_at(TOML, offsets["messages", 0, "delay"]) == (7, 9)
    assert str(position_at(TOML, offsets["messages", 1])) == "line 13, column 1"
    assert position_at(TOML, offsets["messages", 1, "body_json", "tags", 1]) == (15, 35)
    assert position_at(TOML, offsets["messages", 1, "properties", "note"]) == (22, 10)
    assert position_at(TOML, offsets["messages", 1, "inner", 1, "n"]) == (27, 5)
    assert position_at("é\n☃x", 3) == (2, 2)


def test_a_missing_value_is_at_the_part_around_it() -> None:
    offsets = toml_offsets(TOML)
    assert nearest_offset(offsets, path_of("messages[1].tag")) == offsets["messages", 1]
    assert nearest_offset(offsets, path_of("nothing")) == 0


@pytest.mark.parametrize(
    ("field", "path"),
    [
        ("messages[3].delay", ("messages", 3, "delay")),
        ("messages[0].properties.region", ("messages", 0, "properties", "region")),
        ("clock", ("clock",)),
        ("", ()),
    ],
)
def test_fields_become_paths(field: str, path: tuple[str | int, ...]) -> None:
    assert path_of(field) == path


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.sampled_from([None, 2]), st.booleans())
def test_every_value_of_a_json_text_is_where_the_parser_reads_it(
    value: Any, indent: int | None, is_ascii: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    offsets = json_offsets(text)
    decoder = json.JSONDecoder()
    for path, one in leaves(value):
        assert decoder.raw_decode(text, offsets[path])[0] == one


TOML_STRINGS = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=8)


@given(st.lists(st.dictionaries(TOML_STRINGS, TOML_STRINGS | st.integers(-9, 9) | st.booleans(), max_size=4)))
def test_every_value_of_generated_tables_is_found(tables: list[dict[str, Any]]) -> None:
    lines = []
    for table in tables:
        lines.append("[[messages]] # [x]")
        lines += [f"{literal(name)} = {literal(value)}" for name, value in table.items()]
    text = "\n".join(lines)
    offsets = toml_offsets(text)
    for path, value in leaves(tomllib.loads(text)):
        assert text[offsets[path] :].startswith(literal(value))


def literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
