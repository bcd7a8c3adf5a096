"""Messages: Java's hash, the property string, ids and names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.errors import IllegalMessageError, InvalidArgumentError, StoreDamagedError
from mocketmq.message.message import Message, draft
from mocketmq.message.message_id import at_host, log_offset_of, new_unique_key, offset_message_id
from mocketmq.message.names import (
    check_group_name,
    check_topic_name,
    half_topic,
    is_forbidden_topic,
    is_system_topic,
)
from mocketmq.message.properties import (
    MAX_PROPERTIES_BYTES,
    TAGS,
    UNIQ_KEY,
    decode_properties,
    encode_properties,
    java_hash,
    tag_hash,
)

NOW_US = 1_700_000_000_123_456


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("Aa", 2112),
        ("BB", 2112),
        ("hello", 99162322),
        ("hello world", 1794106052),
        ("The quick brown fox jumps over the lazy dog", -609428141),
        ("polygenelubricants", -(2**31)),
        ("é", 233),
        ("订单", 1129459),
        ("😀", 31 * 0xD83D + 0xDE00),  # one character beyond the BMP, two UTF-16 units
        ("\ud83d", 0xD83D),  # half of a surrogate pair
    ],
)
def test_hash_matches_java(text: str, value: int) -> None:
    assert java_hash(text) == value


@given(st.text())
def test_the_hash_fits_a_java_int(text: str) -> None:
    assert -(2**31) <= java_hash(text) < 2**31


@pytest.mark.parametrize(("properties", "value"), [({}, 0), ({TAGS: ""}, 0), ({TAGS: "TagA"}, 2598919)])
def test_the_tag_hash_is_zero_without_a_tag(properties: dict[str, str], value: int) -> None:
    assert tag_hash(properties) == value


parts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1)


@given(st.dictionaries(parts, parts))
def test_properties_survive_a_round_trip(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)) == properties


def test_a_stored_string_without_its_separators_is_damage() -> None:
    with pytest.raises(StoreDamagedError, match=r"damaged: they are 'KEYS7.*restore the data directory"):
        decode_properties("KEYS7\x02TAGS\x01a\x02")


def test_the_property_string_is_upstreams() -> None:
    assert encode_properties({"KEYS": "k", "TAGS": "t"}) == "KEYS\x01k\x02TAGS\x01t\x02"
    assert encode_properties({}) == ""


@pytest.mark.parametrize(
    "properties",
    [
        {"": "v"},
        {"k": ""},
        {"k\x01": "v"},
        {"k\x02": "v"},
        {"k": "v\x01"},
        {"k": "v\x02w"},
        {"k": "\ud83d"},
        {"\udc00": "v"},
        {"k": "x" * (MAX_PROPERTIES_BYTES - 2)},
        {"k": "ü" * (MAX_PROPERTIES_BYTES // 2)},
    ],
)
def test_properties_dropped_or_refused_upstream_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(IllegalMessageError) as refused:
        encode_properties({"good": "one", **properties})
    assert refused.value.field == "properties"
    assert len(str(refused.value)) < 200


def test_properties_up_to_the_limit_are_taken() -> None:
    assert len(encode_properties({"k": "x" * (MAX_PROPERTIES_BYTES - 3)}).encode()) == MAX_PROPERTIES_BYTES


def test_a_draft_keeps_the_unique_key_or_makes_one() -> None:
    kept = draft(Message("t", b"x", {UNIQ_KEY: "mine"}), NOW_US)
    assert (kept.unique_key, kept.properties) == ("mine", f"{UNIQ_KEY}\x01mine\x02")
    made = draft(Message("t", b"x", {"KEYS": "k"}), NOW_US)
    assert decode_properties(made.properties) == {"KEYS": "k", UNIQ_KEY: made.unique_key}


def test_unique_keys_have_upstreams_form_and_differ() -> None:
    keys = [new_unique_key(NOW_US) for _ in range(1_000)]
    assert len(set(keys)) == 1_000
    for key in keys:
        assert len(key) == 32
        assert key == f"{int(key, 16):032X}"


@pytest.mark.parametrize(
    ("host", "offset", "message_id"),
    [
        ("127.0.0.1:10911", 0, "7F00000100002A9F0000000000000000"),
        ("192.168.0.255:65535", 0xABCDEF, "C0A800FF0000FFFF0000000000ABCDEF"),
        ("10.0.0.1:1", 2**63 - 1, "0A000001000000017FFFFFFFFFFFFFFF"),
    ],
)
def test_offset_ids_are_address_port_and_log_offset(host: str, offset: int, message_id: str) -> None:
    assert offset_message_id(host, offset) == message_id
    assert log_offset_of(message_id) == log_offset_of(message_id.lower()) == offset


@pytest.mark.parametrize(
    "other", ["", "x", "7F00000100002A9F", "7F00000100002A9F8000000000000000", "G" * 32, "٠" * 32, "0" * 33]
)
def test_other_ids_have_no_offset(other: str) -> None:
    assert log_offset_of(other) is None
    assert at_host(other, "10.1.2.3:1234") == other


def test_id_is_shown_with_the_address_known_to_the_client() -> None:
    message_id = offset_message_id("127.0.0.1:10911", 77)
    assert at_host(message_id, "10.1.2.3:1234") == "0A010203000004D2000000000000004D"
    assert at_host(message_id.lower(), "127.0.0.1:10911") == message_id


@pytest.mark.parametrize(
    "name", ["a", "A|b%c-d_9", "x" * 127, "%RETRY%" + "g" * 255, "%DLQ%" + "g" * 255, "MQ_INST_1_a%topic"]
)
def test_valid_topic_names(name: str) -> None:
    check_topic_name(name)
    check_topic_name(half_topic(name))
    assert is_forbidden_topic(half_topic(name)) and is_system_topic(half_topic(name))
    assert not is_forbidden_topic(name) and not is_system_topic(name)


@pytest.mark.parametrize(
    "name", ["", " ", "\t", "a b", "a.b", "a/b", "ü", "٣", "a\n", "x" * 128, "%RETRY%" + "g" * 256]
)
def test_invalid_topic_names(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^The specified topic (is|contains)"):
        check_topic_name(half_topic(name))
    with pytest.raises(InvalidArgumentError, match=r"^The specified topic (is|contains)") as refused:
        check_topic_name(name)
    assert (refused.value.field, refused.value.allowed) == (
        "topic",
        "1 to 127 characters of a-z, A-Z, 0-9, %, |, _ and -; up to 255 more after %RETRY% or %DLQ%",
    )


@pytest.mark.parametrize("name", ["g", "GID-x_1|%", "g" * 255])
def test_valid_group_names(name: str) -> None:
    check_group_name(name)


@pytest.mark.parametrize("name", ["", " ", "g.", "g\n", "ü", "g" * 256])
def test_invalid_group_names(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^group is .*1 to 255 characters"):
        check_group_name(name)
