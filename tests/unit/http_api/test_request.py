"""Decoding bodies: accepted values, and error messages for others."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from mocketmq.errors import InvalidArgumentError
from mocketmq.event_loop import EventLoopTurns
from mocketmq.http_api.fields import Input, WaitMs, bound_waits, matching
from mocketmq.http_api.problem import MalformedJSONError
from mocketmq.http_api.request import MAX_VALUES, TooManyValuesError, decode_long, decoder, max_body_bytes
from mocketmq.settings import Settings

Name = Annotated[str, matching("^[a-z]+$", "small letters")]


class Inner(Input, frozen=True):
    number: Annotated[int, Meta(ge=1, le=5)] = 1


class Outer(Input, frozen=True):
    needed: Name
    inner: Inner = Inner()
    many: Annotated[list[Inner], Meta(max_length=2, min_length=1)] = msgspec.field(default_factory=list)
    names: dict[Name, int] = msgspec.field(default_factory=dict)
    letter: Literal["r", "w"] = "r"
    data: bytes = b""
    free: str = ""
    any_number: int = 0
    wait_ms: WaitMs = 5_000


decode = decoder(Outer)


@pytest.mark.parametrize(
    ("body", "field", "allowed", "shown"),
    [
        ('{"needed":"A"}', "needed", "small letters", "'A'"),
        ("{}", "needed", "small letters", "missing"),
        ("[]", "body", "an object", "[]"),
        ('"text"', "body", "an object", "'text'"),
        ('{"needed":"a","more":1}', "more", "only needed, inner, many, names, letter", "1"),
        ('{"needed":"a","inner":{"number":6}}', "inner.number", "a whole number from 1 to 5", "6"),
        ('{"needed":"a","inner":{"x":6}}', "inner.x", "only number", "6"),
        ('{"needed":"a","inner":7}', "inner", "an object", "7"),
        ('{"needed":"a","many":[{},{"number":0}]}', "many[1].number", "a whole number from 1 to 5", "0"),
        ('{"needed":"a","many":[]}', "many", "a list of 1 to 2 entries", "[]"),
        ('{"needed":"a","names":{"A":1}}', "names", "small letters", "{'A': 1}"),
        ('{"needed":"a","names":{"a":"b"}}', "names[...]", "a whole number", "{'a': 'b'}"),
        ('{"needed":"a","letter":"x"}', "letter", "'r', 'w'", "'x'"),
        ('{"needed":"a","free":null}', "free", "text", "None"),
        ('{"needed":"a","any_number":1.5}', "any_number", "a whole number", "1.5"),
        ('{"needed":"a","any_number":"1"}', "any_number", "a whole number", "'1'"),
    ],
)
def test_a_refused_field_is_named_with_its_value_and_rule(
    body: str, field: str, allowed: str, shown: str
) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        decode(body.encode())
    assert raised.value.field == field
    assert raised.value.allowed.startswith(allowed)
    assert str(raised.value).startswith(f"{field} is {shown}; allowed: ")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b'{"needed":"a"}x', b'{"needed":1', b'{"needed":"\xff"}']
)
def test_invalid_json_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedJSONError):
        decode(body)


@pytest.mark.parametrize("name", ["[", "[0]", "a.b", "`", "x` - at `$.y`", "x` - at `$.many[0]`", "", "\n"])
def test_an_unknown_field_may_have_any_name(name: str) -> None:
    with pytest.raises(InvalidArgumentError):
        decode(json.dumps({"needed": "a", name: {"b": 1}}).encode())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.text() | st.sampled_from(Outer.__struct_fields__ + Inner.__struct_fields__), inner
        )
    ),
)


def outcome(read: Callable[[bytes], object], content: bytes) -> object:
    try:
        return read(content)
    except (InvalidArgumentError, MalformedJSONError) as error:
        return str(error)


def read_long(content: bytes) -> object:
    return asyncio.run(decode_long(content, Outer, EventLoopTurns()))


VALID = st.fixed_dictionaries(
    {"needed": st.sampled_from(["a", "b"])},
    optional={
        "many": st.lists(st.fixed_dictionaries({"number": st.sampled_from([1, 2.0, 5])}), max_size=2),
        "data": st.sampled_from(["", "aGk=", "aGk", "="]),
        "names": st.dictionaries(st.sampled_from("ab"), st.integers() | st.floats(0, 9)),
        "any_number": st.integers(-(1 << 70), 1 << 70) | st.sampled_from([1.0, 1.5, 1e300]),
        "free": st.text(),
    },
)


@given((JSON | VALID).map(json.dumps) | st.text(max_size=9))
def test_long_bodies_are_parsed_like_short_ones(body: str) -> None:
    assert outcome(read_long, body.encode()) == outcome(decode, body.encode())


@pytest.mark.parametrize("body", ['{"needed":"a"}', '{"needed":1}', '{"needed":"a","any_number":1.0}'])
def test_a_long_body_is_read_once(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read, contents = msgspec.json.decode, []

    def counted(content: bytes) -> object:
        contents.append(content)
        return read(content)

    monkeypatch.setattr(msgspec.json, "decode", counted)
    outcome(read_long, body.encode())
    assert contents == [body.encode()]


def test_long_body_is_limited_in_values() -> None:
    names = {f"{number}": 1 for number in range(MAX_VALUES - 2)}
    with pytest.raises(InvalidArgumentError, match="names"):
        read_long(json.dumps({"needed": "a", "names": names}).encode())
    with pytest.raises(TooManyValuesError):
        read_long(json.dumps({"needed": "a", "names": names | {"one more": 1}}).encode())


@given(JSON)
def test_any_body_is_accepted_or_refused_by_field(body: object) -> None:
    with suppress(InvalidArgumentError):
        decode(json.dumps(body).encode())


def test_whole_floats_are_numbers_and_strings_stay() -> None:
    assert decode(b'{"needed":"a","many":[{"number":2.0}],"any_number":-3.0}') == Outer(
        needed="a", many=[Inner(number=2)], any_number=-3
    )
    assert decode(b'{"needed":"a","any_number":1.0,"data":"aGk="}') == Outer(
        needed="a", any_number=1, data=b"hi"
    )


def test_waits_are_bounded_by_the_setting_in_value_default_and_schema() -> None:
    bounded = bound_waits(Outer, 2_000_000)
    assert decoder(bounded)(b'{"needed":"a"}').wait_ms == 2_000  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgumentError, match="a whole number from 0 to 2000"):
        decoder(bounded)(b'{"needed":"a","wait_ms":2001}')
    schema = msgspec.json.schema(bounded)["$defs"]["Outer"]
    assert schema["properties"]["wait_ms"]["maximum"] == 2_000
    assert bound_waits(Inner, 0) is Inner


def test_the_body_limit_leaves_room_for_base64() -> None:
    for size in (1, 4 << 20, 16 << 20):
        assert max_body_bytes(Settings(max_message_bytes=size)) > (size + 2) // 3 * 4 + 2 * 32_767


def test_a_mistyped_field_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(InvalidArgumentError, match=r" \(did you mean needed\?\)$"):
        decode(b'{"neded":"a"}')
