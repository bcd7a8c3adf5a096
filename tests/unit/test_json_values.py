"""The number of values in a JSON text, compared with a parser."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.http_api.request import has_more_values

TEXTS = st.text(alphabet='",[]{}\\\u00e9 \n', max_size=8)
VALUES = st.recursive(
    st.none() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def entries_of(value: Any) -> int:
    match value:
        case dict():
            return max(len(value), 1) + sum(map(entries_of, value.values()))
        case list():
            return max(len(value), 1) + sum(map(entries_of, value))
    return 0


@given(VALUES, st.booleans())
def test_entries_match_those_of_a_parser(value: Any, is_ascii: bool) -> None:
    content = json.dumps(value, ensure_ascii=is_ascii).encode()
    entries = entries_of(value)
    assert not has_more_values(content, entries)
    if entries:
        assert has_more_values(content, entries - 1)


@pytest.mark.parametrize(
    "content", [b'["\\\\",1,2]', b'["\\\\\\"",1,2]', b'["\\",[,\\"",1,2]', b'["","",""]']
)
def test_quotes_and_backslashes_in_texts(content: bytes) -> None:
    assert not has_more_values(content, 3)
    assert has_more_values(content, 2)


def test_values_before_a_syntax_error_count() -> None:
    assert has_more_values(b'[1,2,3,4,5,"', 4)
    assert has_more_values(b'[1,2,3,4,5,\\"]', 4)
