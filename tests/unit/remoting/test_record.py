"""Records and their property strings: golden bytes, accepted input, and refusals."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.errors import IllegalMessageError
from mocketmq.message.message import StoredMessage
from mocketmq.message.properties import MAX_PROPERTIES_BYTES, encode_properties
from mocketmq.remoting.wire.record import WireRecord, decode_properties, decode_records, encode_record

STORED = StoredMessage(
    log_offset=0x0102030405060708,
    queue_key=1,
    queue_offset=9,
    store_us=1_700_000_000_123_999,
    born_us=1_700_000_000_000_999,
    born_host="10.1.2.3:50000",
    store_host="not this one",
    flag=5,
    sys_flag=0x301,
    body=b"hello",
    properties="TAGS\x01ü\x02",
    tag_hash=252,
    reconsume_times=3,
    unique_key="unused",
    due_us=None,
    real_queue_key=None,
    parked_offset=77,
)
RECORD = WireRecord(
    topic="TopicA",
    queue_id=2,
    queue_offset=9,
    log_offset=0x0102030405060708,
    body=b"hello",
    properties="TAGS\x01ü",
    flag=5,
    sys_flag=0x301,
    born_ms=1_700_000_000_000,
    born_host="10.1.2.3:50000",
    store_ms=1_700_000_000_123,
    store_host="127.0.0.1:10911",
    reconsume_times=3,
    prepared_offset=0,
    body_crc=0x3610A686,
)
V1 = (
    b"\x00\x00\x00\x6d\xda\xa3\x20\xa7\x36\x10\xa6\x86"  # 109 bytes, magic code, CRC
    b"\x00\x00\x00\x02\x00\x00\x00\x05"  # queue, flag
    b"\x00\x00\x00\x00\x00\x00\x00\x09\x01\x02\x03\x04\x05\x06\x07\x08"  # offsets in the queue and the log
    b"\x00\x00\x03\x01"
    b"\x00\x00\x01\x8b\xcf\xe5\x68\x00\x0a\x01\x02\x03\x00\x00\xc3\x50"  # born
    b"\x00\x00\x01\x8b\xcf\xe5\x68\x7b\x7f\x00\x00\x01\x00\x00\x2a\x9f"  # stored
    b"\x00\x00\x00\x03"
    b"\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x05hello"
    b"\x06TopicA"
    b"\x00\x07TAGS\x01\xc3\xbc"  # no separator at the end, as in 4.9.8
)
V2_IPV6 = (
    b"\x00\x00\x00\x7b\xda\xa3\x20\xab\x00\x00\x00\x00"
    b"\xff\xff\xff\xff\xff\xff\xff\xfe"
    b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x30"
    b"\x00\x00\x00\x00\x00\x00\x00\x01" + bytes(15) + b"\x01\x00\x00\x00\x02"
    b"\x00\x00\x00\x00\x00\x00\x00\x03\x20\x01\x0d\xb8" + bytes(12) + b"\x00\x00\x00\x04"
    b"\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x00\x07"
    b"\x00\x00\x00\x01x"
    b"\x00\x06TopicA"
    b"\x00\x00"
)
READ_V2_IPV6 = WireRecord(
    topic="TopicA",
    queue_id=-1,
    queue_offset=0,
    log_offset=0,
    body=b"x",
    properties="",
    flag=-2,
    sys_flag=48,
    born_ms=1,
    born_host="[::1]:2",
    store_ms=3,
    store_host="[2001:db8::]:4",
    reconsume_times=0,
    prepared_offset=7,
    body_crc=0,
)


REGION = "MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02"


def encoded(message: StoredMessage = STORED, topic: str = "TopicA") -> bytes:
    return encode_record(message, topic, 2, "127.0.0.1:10911")


def test_a_record_is_written_to_the_byte() -> None:
    assert encoded() == V1


def test_a_committed_message_names_its_half_one() -> None:
    [record] = decode_records(encoded(STORED._replace(prepared_offset=0x0908070605040302)))
    assert record == RECORD._replace(prepared_offset=0x0908070605040302)


@pytest.mark.parametrize(("version", "more"), [(0, ""), (409, ""), (413, REGION), (2_147_481_762, REGION)])
def test_clients_of_5_receive_the_region(version: int, more: str) -> None:
    for properties in (STORED.properties, STORED.properties + REGION):
        message = STORED._replace(properties=properties)
        [record] = decode_records(encode_record(message, "TopicA", 2, "127.0.0.1:10911", version))
        if more:
            assert record.properties == STORED.properties + REGION
        else:
            assert record.properties == properties.removesuffix("\x02")


def test_consecutive_records_of_both_versions_are_read() -> None:
    assert decode_records(b"") == []
    assert decode_records(V1) == [RECORD]
    assert decode_records(V2_IPV6) == [READ_V2_IPV6]
    assert decode_records(V1 + V2_IPV6 + V1) == [RECORD, READ_V2_IPV6, RECORD]


@pytest.mark.parametrize("data", [V1, V2_IPV6])
def test_a_truncated_record_is_refused(data: bytes) -> None:
    for length in range(1, len(data)):
        with pytest.raises(IllegalMessageError, match="a record "):
            decode_records(V1 + data[:length])


def test_the_checksum_has_31_bits() -> None:
    body = b"xe"
    assert zlib.crc32(body) > 1 << 31
    (record,) = decode_records(encoded(STORED._replace(body=body)))
    assert record.body_crc == zlib.crc32(body) - (1 << 31)


@pytest.mark.parametrize(
    ("host", "read"),
    [
        ("10.1.2.3:50000", "10.1.2.3:50000"),
        ("255.255.255.255:65535", "255.255.255.255:65535"),
        ("[::1]:50000", "127.0.0.1:50000"),
        ("2001:db8::1:50000", "127.0.0.1:50000"),
        ("some-host:7", "127.0.0.1:7"),
        ("10.1.2:7", "127.0.0.1:7"),
        ("10.1.2.3", "127.0.0.1:0"),
        ("10.1.2.3:", "10.1.2.3:0"),
        ("10.1.2.3:http", "10.1.2.3:0"),
        ("10.1.2.3:100000", "10.1.2.3:0"),
        ("10.1.2.3:\u00b2", "10.1.2.3:0"),
        ("", "127.0.0.1:0"),
    ],
)
def test_a_host_is_written_as_ipv4(host: str, read: str) -> None:
    (record,) = decode_records(encode_record(STORED._replace(born_host=host), "TopicA", 2, host))
    assert (record.born_host, record.store_host) == (read, read)


def test_ipv6_flags_are_dropped() -> None:
    (record,) = decode_records(encoded(STORED._replace(sys_flag=0x331)))
    assert record.sys_flag == 0x301


@pytest.mark.parametrize(("length", "magic"), [(1, b"\xa7"), (127, b"\xa7"), (128, b"\xab"), (262, b"\xab")])
def test_topic_length_takes_two_bytes_only_when_needed(length: int, magic: bytes) -> None:
    data = encoded(topic="t" * length)
    assert data[7:8] == magic
    assert decode_records(data + V1) == [RECORD._replace(topic="t" * length), RECORD]


def test_properties_up_to_the_limit_are_kept() -> None:
    properties = f"a\x01{'x' * (MAX_PROPERTIES_BYTES - 3)}\x02"
    (record,) = decode_records(encoded(STORED._replace(properties=properties)))
    assert record.properties == properties.removesuffix("\x02")


def test_oversized_properties_are_left_out_whole() -> None:
    kept = f"a\x01{'ü' * 16_380}\x02"
    for more in ("REAL_TOPIC\x01t\x02REAL_QID\x010\x02", "b\x01c\x02d\x01e\x02"):
        data = encoded(STORED._replace(properties=kept + more))
        first = decode_records(data + V1)[0]
        assert first.properties == kept + ("b\x01c\x02" if more.startswith("b") else "")
    (record,) = decode_records(encoded(STORED._replace(properties=f"a\x01{'x' * 40_000}\x02")))
    assert record.properties == ""


def test_invalid_utf8_is_read() -> None:
    (record,) = decode_records(V1.replace(b"TopicA", b"Topic\xff").replace(b"\xc3\xbc", b"\xc3\x20"))
    assert (record.topic, record.properties) == ("Topic\ufffd", "TAGS\x01\ufffd ")


def changed(at: int, number: int, form: str = ">i") -> bytes:
    data = bytearray(V1)
    struct.pack_into(form, data, at, number)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (V1[:40], "a record ends in the middle of a field"),
        (V1[:-1], "a record contains a field of 7 bytes, but only 6 are left"),
        (changed(0, 108), "a record declares 108 bytes but is 109 bytes long"),
        (V1 + changed(0, 108), "a record declares 108 bytes but is 109 bytes long"),
        (changed(0, 110), "a record declares 110 bytes but is 109 bytes long"),
        (changed(0, -1), "a record declares 4294967295 bytes but is 109 bytes long"),
        (changed(4, 0), "a record has magic code 0x0; allowed: 0xdaa320a7 and 0xdaa320ab"),
        (changed(84, -1), "a record contains a field of -1 bytes, but only 21 are left"),
        (changed(84, 2**31 - 1), "a record contains a field of 2147483647 bytes, but only 21 are left"),
        (changed(93, -128, ">b"), "a record contains a field of -128 bytes, but only 15 are left"),
        (changed(100, -1, ">h"), "a record contains a field of -1 bytes, but only 7 are left"),
        (changed(100, 8, ">h"), "a record contains a field of 8 bytes, but only 7 are left"),
    ],
)
def test_invalid_records_are_refused(data: bytes, sentence: str) -> None:
    with pytest.raises(IllegalMessageError) as refused:
        decode_records(data)
    assert str(refused.value) == sentence
    assert refused.value.field == "record"


int32, int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
milliseconds = st.integers(0, 2**53)
hosts = st.builds("{}:{}".format, st.ip_addresses(v=4), st.integers(0, 65_535))
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
records = st.builds(
    WireRecord,
    topic=text,
    queue_id=int32,
    queue_offset=int64,
    log_offset=int64,
    body=st.binary(max_size=60),
    properties=text,
    flag=int32,
    sys_flag=int32.map(lambda flag: flag & ~48),
    born_ms=milliseconds,
    born_host=hosts,
    store_ms=milliseconds,
    store_host=hosts,
    reconsume_times=int32,
    prepared_offset=st.just(0),
    body_crc=st.just(0),
)


@given(st.lists(records, max_size=4))
def test_records_survive_a_round_trip(written: list[WireRecord]) -> None:
    data = b"".join(
        encode_record(
            STORED._replace(
                queue_offset=record.queue_offset,
                log_offset=record.log_offset,
                body=record.body,
                properties=record.properties,
                flag=record.flag,
                sys_flag=record.sys_flag,
                born_us=record.born_ms * 1_000,
                born_host=record.born_host,
                store_us=record.store_ms * 1_000 + 999,
                reconsume_times=record.reconsume_times,
            ),
            record.topic,
            record.queue_id,
            record.store_host,
        )
        for record in written
    )
    assert decode_records(data) == [
        record._replace(
            body_crc=zlib.crc32(record.body) & 0x7FFFFFFF, properties=record.properties.removesuffix("\x02")
        )
        for record in written
    ]


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("KEYS\x01k\x02TAGS\x01t\x02", {"KEYS": "k", "TAGS": "t"}),
        ("KEYS\x01k\x02TAGS\x01t", {"KEYS": "k", "TAGS": "t"}),  # as 4.9.8 writes it
        ("a\x011\x02a\x012\x02", {"a": "2"}),
        ("a\x01\x02b\x01c\x02", {"b": "c"}),
        ("\x01a\x02b\x01c\x02", {"b": "c"}),
        ("a\x02b\x01c\x02", {"b": "c"}),
        ("\x02\x02\x01\x02b\x01c\x02\x02", {"b": "c"}),
        ("a\x01b\x01c\x02", {"a": "b\x01c"}),
        ("ab", {}),
        ("ü\x01\u8ba2\u5355\x02", {"ü": "\u8ba2\u5355"}),
        ("a\x011\x02a\x01\x02", {"a": "1"}),  # a dropped empty value does not override
    ],
)
def test_properties_are_parsed_as_in_java(text: str, properties: dict[str, str]) -> None:
    assert decode_properties(text) == properties


parts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1)


@given(st.dictionaries(parts, parts))
def test_properties_survive_a_round_trip(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)) == properties


def javas(text: str) -> dict[str, str]:
    """Reimplements MessageDecoder.string2messageProperties of 4.9.8."""
    properties = {}
    index = 0
    while index < len(text):
        end = text.find("\x02", index)
        end = len(text) if end < 0 else end
        if end - index >= 3:
            middle = text.find("\x01", index)
            if index < middle < end - 1:
                properties[text[index:middle]] = text[middle + 1 : end]
        index = end + 1
    return properties


@given(st.text("\x01\x02ab", max_size=30))
def test_random_property_strings_are_parsed_as_in_java(text: str) -> None:
    assert decode_properties(text) == javas(text)
