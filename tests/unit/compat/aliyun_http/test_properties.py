"""The properties string, in both directions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.errors import InvalidArgumentError
from mocketmq_compat.aliyun_http.properties import parse, render


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("|", {}),
        ("a:1|b:2|", {"a": "1", "b": "2"}),
        ("a:1|b:2", {"a": "1", "b": "2"}),
        ("||a:1||", {"a": "1"}),
        (
            "KEYS:k1 k2|__STARTDELIVERTIME:1700000000000|__SHARDINGKEY:s|__TransCheckT:10|",
            {
                "KEYS": "k1 k2",
                "__STARTDELIVERTIME": "1700000000000",
                "__SHARDINGKEY": "s",
                "__TransCheckT": "10",
            },
        ),
    ],
)
def test_requests_of_real_clients_are_read(text: str, properties: dict[str, str]) -> None:
    assert parse(text) == properties


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a", "'a'"),
        ("a:", "'a:'"),
        (":1", "':1'"),
        ("a:b:c", "'a:b:c'"),
        ("__STARTDELIVERTIME:|", "'__STARTDELIVERTIME:'"),
        ("a:1|a:1|", "'a'"),
        ("DELAY:3|", "'DELAY'"),
        ("UNIQ_KEY:x|", "'UNIQ_KEY'"),
        ("TAGS:x|", "'TAGS'"),
    ],
)
def test_fields_without_effect_are_refused(text: str, shown: str) -> None:
    with pytest.raises(InvalidArgumentError, match="Properties is") as refused:
        parse(text)
    assert f" is {shown}; allowed: " in str(refused.value)


def test_the_services_properties_come_last_and_every_pair_is_terminated() -> None:
    stored = {
        "UNIQ_KEY": "0A",
        "TAGS": "t",
        "__TransCheckT": "10",
        "__SHARDINGKEY": "s",
        "__STARTDELIVERTIME": "17",
        "KEYS": "k1 k2",
        "REAL_TOPIC": "orders",
        "b": "2",
        "a": "1",
        "DELAY": "3",
    }
    assert render(stored) == "b:2|a:1|KEYS:k1 k2|__STARTDELIVERTIME:17|__SHARDINGKEY:s|__TransCheckT:10|"


def test_unrepresentable_properties_are_left_out() -> None:
    assert render({"a:b": "1", "a|b": "1", "c": "1:2", "d": "1|2", "e": "<&>\"'"}) == "e:<&>\"'|"
    assert render({"a": "1:2", "KEYS": "k:1"}) == ""


PART = st.text(st.characters(exclude_characters=":|", codec="utf-8"), min_size=1)


@given(st.dictionaries(PART.map("my".__add__), PART))
def test_rendered_properties_are_parsed_back(properties: dict[str, str]) -> None:
    assert parse(render(properties)) == properties
