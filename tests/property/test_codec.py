"""The codec converts as Python does, or leaves the conversion to Python.

``make test-compiled`` runs these tests over the codec in C. Without it, they test the Python code alone.
"""

import json
import struct
from types import MappingProxyType
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq import codec
from mocketmq.errors import IllegalMessageError
from mocketmq.message.message_id import offset_message_id
from mocketmq.message.properties import encode_properties
from mocketmq.remoting.requests.send_header import V2_NAMES, SendMessageHeader
from mocketmq.remoting.wire.codes import LANGUAGES, FrameError, RequestCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.frame import MAX_FRAME, MAX_HEADER, FrameReader, encode
from mocketmq.remoting.wire.header import HeaderReader
from mocketmq.remoting.wire.json_header import read_header, write_header
from mocketmq.remoting.wire.record import decode_properties
from mocketmq.rocketmq_versions import V4_9_8
from tests.bench.remoting_client import send_frame

SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
IS_COMPILED: Final = not str(codec.__file__).endswith(".py")
READER: Final = HeaderReader(SendMessageHeader, V2_NAMES)

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
lone = st.text(max_size=8)  # lone surrogates, too
spaces = st.text(" \t\r\n", max_size=2)
mandatory = st.fixed_dictionaries(
    dict.fromkeys("abc", text) | dict.fromkeys("defh", int32) | {"g": int64},
    optional={"i": text, "j": int32, "k": st.booleans(), "l": int32, "m": st.booleans()},
)
others = st.dictionaries(st.sampled_from(["n", "lo", "ns", "nsd", "bname", "z", "AccessKey", "ä"]), text)


def written(value: object, draw: Any) -> str:
    """Write JSON as any client might: with spaces, with escapes, and with fields in any order."""
    if isinstance(value, dict):
        items = draw(st.permutations(list(value.items())))
        members = [
            f"{draw(spaces)}{json.dumps(name)}{draw(spaces)}:{draw(spaces)}{written(each, draw)}"
            for name, each in items
        ]
        return f"{{{','.join(members)}{draw(spaces)}}}"
    return str(json.dumps(value, ensure_ascii=draw(st.booleans())))


def as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def framed(header: bytes, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


def header_of(command: Command) -> SendMessageHeader:
    """The header as the dispatcher makes it."""
    header: SendMessageHeader = (
        READER.read(command.ext) if command.values is None else SendMessageHeader(*command.values)
    )
    return header


@given(st.data(), mandatory, others, int32, int32, int32, st.sampled_from(LANGUAGES), st.binary(max_size=20))
def test_sends_are_read_as_they_were_written(
    data: st.DataObject,
    values: dict[str, Any],
    others: dict[str, str],
    opaque: int,
    flag: int,
    version: int,
    language: str,
    body: bytes,
) -> None:
    ext = {name: as_text(value) for name, value in values.items()} | others
    fields = {"code": SEND, "opaque": opaque, "flag": flag, "version": version, "language": language}
    fields |= data.draw(
        st.sampled_from([{}, {"remark": ""}, {"serializeTypeCurrentRPC": "JSON", "namespaceId": "ä"}])
    )
    header = written(fields | {"extFields": ext}, data.draw).encode()
    [command] = FrameReader().feed(framed(header, body))
    of_class = {each: name for name, each in V2_NAMES.items()}
    assert header_of(command) == SendMessageHeader(
        **{of_class[name]: value for name, value in values.items()}
    )
    assert command.ext == ext
    assert (command.code, command.opaque, command.flag) == (SEND, opaque, flag)
    assert (command.version, command.language, command.body) == (version, language, body)


USUAL: Final = [
    b'{"code":310,"extFields":{"a":"p","b":"orders","c":"TBW102","d":"4","e":"0","f":"0","g":"1715900000000",'
    b'"h":"0","i":"KEYS\\u0001k\\u0002UNIQ_KEY\\u00017F\\u0002","j":"0","k":"false","m":"false"},"flag":0,'
    b'"language":"JAVA","namespaceId":"","opaque":7,"serializeTypeCurrentRPC":"JSON","version":409}',
    b'{"code":310,"language":"GO","version":317,"opaque":-1,"flag":0,"remark":"","extFields":{"a":"p","b":"\xc3\xa4",'
    b'"c":"TBW102","d":"8","e":"3","f":"0","g":"1","h":"-5","i":"A\x7f\\u00e4\\u20ac\\n","j":"1","k":"true","l":"16"}}',
]


@pytest.mark.parametrize("header", USUAL)
def test_a_release_reads_usual_sends_in_c(header: bytes) -> None:
    assert (codec.read_send(header, SEND) is not None) is IS_COMPILED
    assert codec.read_send(header, SEND + 1) is None
    [command] = FrameReader().feed(framed(header, b""))
    assert header_of(command) == READER.read(read_header(header)[1])
    assert (codec.read_properties("A\x01b\x02") == {"A": "b"}) is IS_COMPILED
    assert (codec.write_properties({"A": "b"}, 5) == "A\x01b\x02") is IS_COMPILED
    assert (codec.write_frame(0, {}, 1, "JAVA", 7, 0, b"") is not None) is IS_COMPILED
    assert (codec.write_message_id("7F0000010000ABCD", 0) is not None) is IS_COMPILED


LEFT: Final = {
    "a number of more than 32 bits": (b'"d":"4"', b'"d":"2147483648"'),
    "a number of more than 64 bits": (b'"g":"1715900000000"', b'"g":"9999999999999999999"'),
    "a number that only Python reads": (b'"d":"4"', b'"d":"+4"'),
    "no number": (b'"d":"4"', b'"d":"-"'),
    "a number with a zero before it": (b'"opaque":7', b'"opaque":07'),
    "a fraction": (b'"opaque":7', b'"opaque":7.0'),
    "an opaque of more than 32 bits": (b'"opaque":7', b'"opaque":2147483648'),
    "a number as an ext field": (b'"d":"4"', b'"d":4'),
    "a boolean that only Python reads": (b'"k":"false"', b'"k":"False"'),
    "an empty field": (b'"b":"orders"', b'"b":""'),
    "a missing field": (b'"c":"TBW102",', b""),
    "a field given twice": (b'"d":"4"', b'"d":"4","d":"5"'),
    "ext fields given twice": (b'"flag":0', b'"extFields":{"z":"y"},"flag":0'),
    "no ext fields": (b'"flag":0', b'"extFields":null,"flag":0'),
    "an escaped name": (b'"flag":0', b'"fl\\u0061g":0'),
    "an escaped name of a field": (b'"d":"4"', b'"\\u0064":"4"'),
    "a control character": (b'"b":"orders"', b'"b":"or\x01ders"'),
    "half of a surrogate pair": (b'"b":"orders"', b'"b":"\\ud83d"'),
    "a surrogate pair": (b'"b":"orders"', b'"b":"\\ud83d\\ude00"'),
    "an unknown escape": (b'"b":"orders"', b'"b":"\\x41"'),
    "invalid UTF-8": (b'"b":"orders"', b'"b":"\xff"'),
    "invalid UTF-8 in an unknown field": (b'"d":"4"', b'"d":"4","z":"\xff"'),
    "an unknown field of another type": (b'"d":"4"', b'"d":"4","z":{}'),
    "an unknown field of the header": (b'"flag":0', b'"flag":0,"x":0'),
    "an unknown field of the header, not ASCII": (b'"flag":0', b'"flag":0,"x":"\xff"'),
    "an unknown name, not ASCII": (b'"flag":0', b'"flag":0,"\xff":"x"'),
    "a remark": (b'"flag":0', b'"flag":0,"remark":"x"'),
    "no language": (b'"language":"JAVA",', b""),
    "a language as a number": (b'"language":"JAVA"', b'"language":0'),
    "another code": (b'"code":310', b'"code":10'),
    "bytes after it": (b'"version":409}', b'"version":409}}'),
    "its end missing": (b'"version":409}', b'"version":409'),
}


@pytest.mark.parametrize("name", LEFT)
def test_an_unusual_header_is_left_to_python(name: str) -> None:
    usual, unusual = LEFT[name]
    assert USUAL[0].count(usual) == 1
    assert codec.read_send(USUAL[0].replace(usual, unusual), SEND) is None


pieces = st.sampled_from(
    [bytes((byte,)) for byte in b'{}[]:,"\\0123456789-+.eEtfnu abm\x00\x01\x1f\x7f\x80\xc3\xa4\xed\xa0\xff']
    + [
        b"null",
        b"true",
        b"\\u0000",
        b"\\ud800",
        b"\\uD83D\\uDE00",
        b'"a":"x",',
        b'"extFields":{},',
        b'"code":310,',
    ]
)


@given(
    st.sampled_from(USUAL), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 2), pieces), max_size=4)
)
def test_a_changed_header_is_read_alike_or_not_in_c(
    header: bytes, changes: list[tuple[int, int, bytes]]
) -> None:
    for at, dropped, piece in changes:
        header = header[:at] + piece + header[at + dropped :]
    send = codec.read_send(header, SEND)
    if send is None:
        return
    fields, ext = read_header(header)
    opaque, flag, version, language, values = send
    assert (opaque, flag, version, language) == (fields.opaque, fields.flag, fields.version, fields.language)
    assert fields.code == SEND
    assert not fields.remark
    assert SendMessageHeader(*values) == READER.read(ext)


def test_headers_cut_anywhere_are_refused_or_incomplete() -> None:
    whole = send_frame(7)
    start = struct.unpack_from(">i", whole, 4)[0]
    for size in range(start):
        assert codec.read_send(whole[8 : 8 + size], SEND) is None
        with pytest.raises(FrameError):
            FrameReader().feed(framed(whole[8 : 8 + size], b""))


@pytest.mark.parametrize("size", [2_040, 2_048, 2_049, 5_000, 40_000])
def test_headers_and_properties_of_any_size_are_converted(size: int) -> None:
    properties = {"A": "x" * (size - 3)}
    whole = encode_properties(properties, size)
    assert (len(whole), decode_properties(whole)) == (size, properties)
    with pytest.raises(IllegalMessageError, match=f"{size} bytes"):
        encode_properties(properties, size - 1)
    start, end = USUAL[0].split(b"KEYS")
    header = start + b"x" * (size - len(USUAL[0])) + b"KEYS" + end
    [command] = FrameReader().feed(framed(header, b""))
    assert header_of(command).properties.startswith("xxx")


@given(st.text(st.sampled_from("\x01\x02\x00abä\ud800😀"), max_size=30) | lone)
def test_properties_are_read_as_upstream_reads_them(text: str) -> None:
    parts = [part.partition("\x01") for part in text.split("\x02")]
    assert decode_properties(text) == {name: value for name, _, value in parts if name and value}


@given(
    st.dictionaries(lone, lone | st.sampled_from(["\x01", "\x02", "a\x00"]), max_size=5), st.integers(0, 60)
)
def test_properties_are_written_or_refused(properties: dict[str, str], limit: int) -> None:
    expected = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    everything = "".join([*properties, *properties.values()])
    is_valid = "" not in {*properties, *properties.values()} and not {"\x01", "\x02"} & {*everything}
    try:
        is_valid = is_valid and len(expected.encode()) <= limit
    except UnicodeEncodeError:
        is_valid = False
    if is_valid:
        assert encode_properties(properties, limit) == expected
    else:
        with pytest.raises(IllegalMessageError):
            encode_properties(properties, limit)


def test_remembered_texts_do_not_replace_each_other() -> None:
    names = [f"{number:05}" for number in range(5_000)]
    text = "".join(f"{name}\x01{name}\x02" for name in names)
    for _ in range(2):
        assert decode_properties(text) == {name: name for name in names}


texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('"\\\x00\x1f\x7f/'), max_size=12)


@given(
    st.dictionaries(texts, texts, max_size=5),
    *(int32, int32, int32, int32),
    st.sampled_from(LANGUAGES),
    st.none() | texts,
    st.binary(max_size=20),
)
def test_frames_are_written_alike(
    ext: dict[str, str],
    code: int,
    flag: int,
    opaque: int,
    version: int,
    language: str,
    remark: str | None,
    body: bytes,
) -> None:
    header = write_header(code, ext, flag, language, opaque, version, remark)
    command = Command(code, opaque, flag, ext, body, remark, language, version)
    assert encode(command) == framed(header, body)
    assert codec.write_frame(code, ext, flag, language, opaque, version, body) in (
        None,
        framed(write_header(code, ext, flag, language, opaque, version, None), body),
    )


@pytest.mark.parametrize("size", [1_900, 2_048, 2_200, 1 << 20, MAX_HEADER + 1])
def test_headers_of_any_size_are_written_or_refused(size: int) -> None:
    command = Command(0, ext={"a": "x" * size}, body=b"y")
    if size > MAX_HEADER - 200:
        with pytest.raises(FrameError):
            encode(command)
    else:
        assert encode(command) == framed(write_header(0, command.ext, 0, "JAVA", 0, V4_9_8, None), b"y")


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 1, MAX_FRAME])
def test_frames_of_any_size_are_written_or_refused(size: int) -> None:
    command = Command(0, body=bytes(size))
    if size == MAX_FRAME:
        with pytest.raises(FrameError):
            encode(command)
    else:
        assert encode(command) == framed(write_header(0, {}, 0, "JAVA", 0, V4_9_8, None), command.body)


@pytest.mark.parametrize(
    ("host", "offset"), [("7F0000010000ABCD", -1), ("7F0000010000ABCD", 2**63), ("7F00000100ABCD", 0)]
)
def test_an_unusual_message_id_is_left_to_python(host: str, offset: int) -> None:
    assert codec.write_message_id(host, offset) is None


def test_a_frame_of_unusual_values_is_left_to_python() -> None:
    others: list[tuple[Any, ...]] = [
        (2**63, {}, 0, "JAVA", 0, 0, b""),
        (0, MappingProxyType({}), 0, "JAVA", 0, 0, b""),
        (0, {"a": 1}, 0, "JAVA", 0, 0, b""),
        (0, {"a": "\ud800"}, 0, "JAVA", 0, 0, b""),
        (0, {}, 0, "JAVA", 0, 0, memoryview(b"")),
    ]
    assert [codec.write_frame(*each) for each in others] == [None] * len(others)


@given(st.integers(0, 2**63 - 1))
def test_message_ids_are_written(offset: int) -> None:
    assert offset_message_id("127.0.0.1:10911", offset) == f"7F00000100002A9F{offset:016X}"
