"""Frames: golden bytes of both header formats, in pieces of any size, and refusals."""

import struct
import tracemalloc
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.remoting.wire.codes import LANGUAGES, FrameError
from mocketmq.remoting.wire.command import JSON, ROCKETMQ, Command
from mocketmq.remoting.wire.frame import MAX_FRAME, MAX_HEADER, FrameReader, encode
from tests.support.commands import changed, fields


def json_frame(header: bytes, body: bytes = b"", form: int = 0) -> bytes:
    return struct.pack(">iBxH", 4 + len(header) + len(body), form, len(header)) + header + body


def binary_frame(header: bytes) -> bytes:
    return json_frame(header, form=1)


NEXT_FRAME = b'\x00\x00\x00\x1d\x00\x00\x00\x18{"code":34,"opaque":999}\n'
NEXT = Command(code=34, opaque=999, version=0, language="OTHER", body=b"\n")

READ = {
    "a send of Java": (
        b"\x00\x00\x00\xa8\x00\x00\x00\x9f"
        b'{"code":310,"extFields":{"a":"g","i":"TAGS\\u0001\xc3\xbc\\u0002","n":"broker-a"},"flag":0,'
        b'"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":409}'
        b"hello",
        Command(
            code=310,
            opaque=7,
            ext={"a": "g", "i": "TAGS\x01ü\x02", "n": "broker-a"},
            body=b"hello",
        ),
    ),
    "C++ ends its header with a newline": (
        json_frame(
            b'{"code":34,"language":"CPP","version":333,"opaque":1,"flag":0,"remark":"",'
            b'"extFields":{"Signature":"","AccessKey":""}}\n',
            b"{}\n",
        ),
        Command(
            code=34,
            opaque=1,
            language="CPP",
            version=333,
            ext={"Signature": "", "AccessKey": ""},
            body=b"{}\n",
        ),
    ),
    "ali-ons writes ext values as they are": (
        json_frame(
            b'{"code":15,"language":"JAVA","version":121,"opaque":2,"flag":0,"remark":null,'
            b'"extFields":{"queueId":3,"commitOffset":9007199254740993,"unitMode":false,"batch":true,"none":null,'
            b'"ratio":1.5,"less":-1,"list":[1,{"a":"b"}],"topic":"t"}}'
        ),
        Command(
            code=15,
            opaque=2,
            version=121,
            ext={
                "queueId": "3",
                "commitOffset": "9007199254740993",
                "unitMode": "false",
                "batch": "true",
                "ratio": "1.5",
                "less": "-1",
                "list": '[1,{"a":"b"}]',
                "topic": "t",
            },
        ),
    ),
    "ons-client's version is any number": (
        json_frame(b'{"code":34,"language":"JAVA","version":2147481762,"opaque":-2147483648,"flag":2}'),
        Command(code=34, version=2_147_481_762, opaque=-(2**31), flag=2),
    ),
    "a language by its number": (
        json_frame(b'{"code":34,"language":9,"version":317,"opaque":3}'),
        Command(code=34, language="GO", version=317, opaque=3),
    ),
    "an answer with a remark, and keys that nobody knows": (
        json_frame(
            b'{"code":17,"language":"GO","flag":1,"remark":"no","version":1,"new":{"a":[1,null]},"opaque":5}'
        ),
        Command(code=17, language="GO", flag=1, remark="no", version=1, opaque=5),
    ),
    "numbers as text, and single quotes, which fastjson takes": (
        json_frame(b"{'code':'34',language:'JAVA','version':409,'opaque':'6','extFields':{1:2}}"),
        Command(code=34, opaque=6, ext={"1": "2"}),
    ),
    "text that is not UTF-8": (
        json_frame(b'{"code":10,"language":"JAVA","version":409,"extFields":{"a":"\xd6\xd0","b":"\\ud83d"}}'),
        Command(code=10, ext={"a": "\ufffd\ufffd", "b": "\ufffd"}),
    ),
    "of equal keys the last": (
        json_frame(b'{"code":1,"code":10,"language":"JAVA","version":409,"extFields":{"a":"1","a":"2"}}'),
        Command(code=10, ext={"a": "2"}),
    ),
    "a binary send": (
        b"\x00\x00\x00\x3a\x01\x00\x00\x31"
        b"\x01\x36\x00\x01\x99\x00\x00\x00\x07\x00\x00\x00\x00"  # 310, JAVA, 409, opaque 7, flag 0
        b"\x00\x00\x00\x02hi"
        b"\x00\x00\x00\x1a"
        b"\x00\x01a\x00\x00\x00\x02\xc3\xbc"
        b"\x00\x05topic\x00\x00\x00\x06TopicA"
        b"hello",
        Command(
            code=310,
            opaque=7,
            remark="hi",
            ext={"a": "ü", "topic": "TopicA"},
            body=b"hello",
            serialization=ROCKETMQ,
        ),
    ),
    "a binary answer with nothing": (
        binary_frame(struct.pack(">hbHiiii", -5, 9, 65_535, -1, 1, 0, 0)),
        Command(code=-5, language="GO", version=65_535, opaque=-1, flag=1, serialization=ROCKETMQ),
    ),
    "an empty value is none, where upstream reads none": (
        binary_frame(struct.pack(">hbHiiii", 11, 12, 1, 1, 0, 0, 7) + b"\x00\x01a\x00\x00\x00\x00"),
        Command(code=11, language="RUST", version=1, opaque=1, serialization=ROCKETMQ),
    ),
    "binary text that is not UTF-8": (
        binary_frame(
            struct.pack(">hbHi", 10, 0, 1, 1) + bytes(4) + b"\0\0\0\1\xff" + b"\0\0\0\x08\0\1\xd6\0\0\0\1\xd0"
        ),
        Command(
            code=10, version=1, opaque=1, remark="\ufffd", ext={"\ufffd": "\ufffd"}, serialization=ROCKETMQ
        ),
    ),
    "a binary language that nobody knows": (
        binary_frame(struct.pack(">hbHiiii", 11, -1, 1, 1, 0, 0, 0) + b"left alone, as upstream does"),
        Command(code=11, language="OTHER", version=1, opaque=1, serialization=ROCKETMQ),
    ),
}


def fed(data: bytes, size: int) -> list[dict[str, Any]]:
    """Read the data in pieces of this many bytes; return the fields of each command, without its size."""
    reader = FrameReader()
    commands = []
    for start in range(0, len(data), size):
        commands += reader.feed(data[start : start + size])
    assert reader.buffered == 0
    assert sum(command.frame_bytes for command in commands) == len(data)
    return [fields(changed(command, frame_bytes=0)) for command in commands]


@pytest.mark.parametrize("name", READ)
def test_frame_is_read_in_any_pieces(name: str) -> None:
    frame, command = READ[name][0], fields(READ[name][1])
    assert fed(frame, len(frame)) == [command]
    assert fed(frame, 1) == [command]
    for size in (1, 7, len(frame) - 1, len(frame) + 1, 2 * len(frame) + len(NEXT_FRAME)):
        assert fed(frame + NEXT_FRAME + frame, size) == [command, fields(NEXT), command]


@pytest.mark.parametrize("name", READ)
def test_commands_survive_a_round_trip(name: str) -> None:
    command = READ[name][1]
    assert fed(encode(command), 10_000) == [fields(command)]


def test_a_command_is_returned_with_its_last_byte() -> None:
    reader = FrameReader()
    frame = READ["a send of Java"][0]
    command = fields(READ["a send of Java"][1]) | {"frame_bytes": len(frame)}
    for at, byte in enumerate(frame):
        known = 4 if at < 4 else 8 if at < 8 else len(frame)
        assert (reader.buffered, reader.lacking) == (at, known - at if at else 0)
        assert bool(reader.feed(bytes((byte,)))) is (at == len(frame) - 1)
    assert reader.buffered == 0
    assert list(map(fields, reader.feed(frame + frame[:5]))) == [command]
    assert (reader.buffered, reader.lacking) == (5, 3)
    assert reader.feed(b"") == []
    assert list(map(fields, reader.feed(frame[5:] + frame[:3]))) == [command]
    assert reader.buffered == 3


@pytest.mark.parametrize("cut", range(1, 12))
def test_long_frame_may_be_split_within_its_lengths(cut: int) -> None:
    frame = struct.pack(">ii", 200_014, 10) + b'{"code":1}' + bytes(200_000)
    reader = FrameReader()
    assert reader.feed(frame[:cut]) == []
    (command,) = reader.feed(frame[cut:])
    assert len(command.body) == 200_000


@pytest.mark.parametrize(
    ("language", "name"), [*enumerate(LANGUAGES), (14, "OTHER"), (-1, "OTHER"), (10**30, "OTHER")]
)
def test_languages_by_number(language: int, name: str) -> None:
    (command,) = FrameReader().feed(json_frame(b'{"code":1,"language":%d}' % language))
    assert command.language == name


@pytest.mark.parametrize("language", [b'"GOLANG"', b'"java"', b"null", b'""', b'"12"'])
def test_an_unknown_language_is_shown_as_other(language: bytes) -> None:
    (command,) = FrameReader().feed(json_frame(b'{"code":1,"language":%b}' % language))
    assert command.language == "OTHER"


ANSWERS = {
    "of a send": (
        Command(code=310, opaque=7).answer(0, {"msgId": "7F", "queueId": "1"}, b"", None),
        b"\x00\x00\x00\x8c\x00\x00\x00\x88"
        b'{"code":0,"extFields":{"msgId":"7F","queueId":"1"},"flag":1,"language":"JAVA","opaque":7,'
        b'"version":409,"serializeTypeCurrentRPC":"JSON"}',
    ),
    "without ext fields": (
        Command(code=34, opaque=-1).answer(0, MappingProxyType({}), b"body", None),
        b"\x00\x00\x00\x77\x00\x00\x00\x6f"
        b'{"code":0,"extFields":{},"flag":1,"language":"JAVA","opaque":-1,'
        b'"version":409,"serializeTypeCurrentRPC":"JSON"}'
        b"body",
    ),
    "with a remark": (
        Command(code=34, opaque=1).answer(1, {}, b"", 'ü "\n'),
        b"\x00\x00\x00\x85\x00\x00\x00\x81"
        b'{"code":1,"extFields":{},"flag":1,"language":"JAVA","opaque":1,'
        b'"version":409,"remark":"\xc3\xbc \\"\\n","serializeTypeCurrentRPC":"JSON"}',
    ),
    "in binary": (
        Command(code=34, opaque=1, serialization=ROCKETMQ).answer(17, {"a": "ü"}, b"body", "no"),
        b"\x00\x00\x00\x28\x01\x00\x00\x20"
        b"\x00\x11\x00\x01\x99\x00\x00\x00\x01\x00\x00\x00\x01"
        b"\x00\x00\x00\x02no"
        b"\x00\x00\x00\x09\x00\x01a\x00\x00\x00\x02\xc3\xbc"
        b"body",
    ),
    "no answer but a request of ours": (
        Command.oneway(40, 3, {"consumerGroup": "g"}),
        b"\x00\x00\x00\x86\x00\x00\x00\x82"
        b'{"code":40,"extFields":{"consumerGroup":"g"},"flag":2,"language":"JAVA","opaque":3,'
        b'"version":409,"serializeTypeCurrentRPC":"JSON"}',
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_written_to_the_byte(name: str) -> None:
    command, frame = ANSWERS[name]
    assert encode(command) == frame
    assert fed(frame, 1) == [fields(command)]


def test_a_version_too_long_for_a_binary_header_is_cut_as_upstream_does() -> None:
    command = Command(code=1, version=2_147_481_762, serialization=ROCKETMQ)
    (again,) = FrameReader().feed(encode(command))
    assert again.version == 2_147_481_762 & 0xFFFF


def binary(*, remark: int = 0, ext: int = 0, rest: bytes = b"") -> bytes:
    return binary_frame(struct.pack(">hbHiiii", 10, 0, 1, 1, 0, remark, ext) + rest)


REFUSED = {
    "a negative length": (
        b"\xff\xff\xff\xff",
        "the length of a frame is -1; allowed: 4 to 16777212",
    ),
    "no room for a header": (b"\x00\x00\x00\x03", "the length of a frame is 3"),
    "one byte too many": (b"\x00\xff\xff\xfd", "the length of a frame is 16777213"),
    "another protocol": (b"GET / HTTP/1.1\r\n\r\n", "the length of a frame is 1195725856"),
    "the largest number": (b"\x7f\xff\xff\xff\x00\x00\x00\x02{}", "the length of a frame is 2147483647"),
    "a header longer than its frame": (
        b"\x00\x00\x00\x06\x00\x00\x00\x03{}",
        "a header of 3 bytes in a frame of 6; allowed: at most 2",
    ),
    "a header in a frame without room": (
        b"\x00\x00\x00\x04\x00\x00\x00\x01",
        "a header of 1 bytes in a frame of 4; allowed: at most 0",
    ),
    "the longest header": (
        b"\x00\xff\xff\xfc\x00\xff\xff\xf8",
        "a header of 16777208 bytes in a frame of 16777212; allowed: at most 1048576",
    ),
    "a header that is too long": (
        b"\x00\x20\x00\x00\x00\x10\x00\x01",
        "a header of 1048577 bytes in a frame of 2097152; allowed: at most 1048576",
    ),
    "a header form that nobody knows": (
        b"\x00\x00\x00\x06\x02\x00\x00\x02{}",
        "a header has serialize type 2; allowed: 0 (JSON) and 1 (ROCKETMQ)",
    ),
    "the highest header form": (b"\x00\x00\x00\x06\xff\x00\x00\x02{}", "a header has serialize type 255;"),
    "no header": (b"\x00\x00\x00\x04\x00\x00\x00\x00", "a header that cannot be read: not JSON: "),
    "no JSON": (json_frame(b"hello"), "a header that cannot be read: not JSON: 'hello' without quotes"),
    "JSON that ends too early": (json_frame(b'{"code":1'), "a header that cannot be read: not JSON: "),
    "JSON with more behind": (json_frame(b'{"code":1}{}'), "a header that cannot be read: not JSON: "),
    "no object": (json_frame(b"[1]"), "a header that cannot be read: Expected `object`, got `array`"),
    "no code": (json_frame(b'{"opaque":1}'), "missing required field `code`"),
    "a code that is no number": (json_frame(b'{"code":"x"}'), "Expected `int`, got `str` - at `$.code`"),
    "a code that is none": (json_frame(b'{"code":null}'), "at `$.code`"),
    "a code of 33 bits": (json_frame(b'{"code":2147483648}'), "at `$.code`"),
    "an opaque of 33 bits": (json_frame(b'{"code":1,"opaque":-2147483649}'), "at `$.opaque`"),
    "a flag of 33 bits": (json_frame(b'{"code":1,"flag":2147483648}'), "at `$.flag`"),
    "a version of 33 bits": (json_frame(b'{"code":1,"version":2147483648}'), "at `$.version`"),
    "a flag that is no number": (json_frame(b'{"code":1,"flag":true}'), "at `$.flag`"),
    "a remark that is no text": (json_frame(b'{"code":1,"remark":{}}'), "at `$.remark`"),
    "ext fields that are no object": (json_frame(b'{"code":1,"extFields":[]}'), "at `$.extFields`"),
    "JSON without a bottom": (
        json_frame(b"[" * 60_000),
        "a header that cannot be read: not JSON: nested more than 64",
    ),
    "an unknown field without a bottom": (
        json_frame(b'{"code":1,"new":' + b"[" * 60_000),
        "a header that cannot be read: not JSON: nested more than 64",
    ),
    "an ext field without a bottom": (
        json_frame(b'{"code":1,"extFields":{"a":' + b"[" * 60_000),
        "a header that cannot be read: not JSON: nested more than 64",
    ),
    "a binary header of nothing": (
        binary_frame(b""),
        "a binary header of 0 bytes ends in the middle of a field",
    ),
    "a binary header without ext": (
        binary_frame(struct.pack(">hbHiii", 10, 0, 1, 1, 0, 0)),
        "a binary header of 17 bytes ends in the middle of a field",
    ),
    "a remark that is not there": (binary(remark=5), "a remark declares 5 bytes, but only 4 are left"),
    "a negative remark": (binary(remark=-1), "a remark declares -1 bytes, but only 4 are left"),
    "a huge remark": (binary(remark=2**31 - 1), "a remark declares 2147483647 bytes, but only 4 are left"),
    "ext fields that are not there": (binary(ext=1), "the ext fields declare 1 bytes, but only 0 are left"),
    "negative ext fields": (binary(ext=-4), "the ext fields declare -4 bytes, but only 0 are left"),
    "half a name's length": (binary(ext=1, rest=b"\x00"), "ends in the middle of a field"),
    "a name that is not there": (
        binary(ext=3, rest=b"\x00\x02a"),
        "an ext field's name declares 2 bytes, but only 1 are left",
    ),
    "a negative name": (
        binary(ext=4, rest=b"\xff\xffab"),
        "an ext field's name declares -1 bytes, but only 2 are left",
    ),
    "a name without a value": (binary(ext=3, rest=b"\x00\x01a"), "ends in the middle of a field"),
    "a value that is not there": (
        binary(ext=8, rest=b"\x00\x01a\x00\x00\x00\x02b"),
        "an ext field's value declares 2 bytes, but only 1 are left",
    ),
    "a negative value": (
        binary(ext=8, rest=b"\x00\x01a\xff\xff\xff\xffb"),
        "an ext field's value declares -1 bytes, but only 1 are left",
    ),
    "a value that goes on behind the ext fields": (
        binary(ext=8, rest=b"\x00\x01a\x00\x00\x00\x02bc"),
        "the ext fields are 8 bytes long, but the last field ends beyond them",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_frames_are_refused_in_any_pieces(name: str) -> None:
    frame, sentence = REFUSED[name]
    for data in (frame, NEXT_FRAME + frame, frame + NEXT_FRAME):
        for size in (1, len(data)):
            with pytest.raises(FrameError) as refused:
                fed(data, size)
            assert sentence in str(refused.value)
            assert len(str(refused.value)) < 200


@pytest.mark.parametrize("name", REFUSED)
def test_complete_commands_before_an_invalid_frame_are_kept(name: str) -> None:
    with pytest.raises(FrameError) as refused:
        FrameReader().feed(NEXT_FRAME + NEXT_FRAME + REFUSED[name][0])
    expected = fields(NEXT) | {"frame_bytes": len(NEXT_FRAME)}
    assert list(map(fields, refused.value.before)) == [expected] * 2


def test_the_largest_frame_is_read() -> None:
    start = b'\x00\xff\xff\xfc\x00\x00\x00\x0a{"code":1}'
    frame = start + bytes(MAX_FRAME - len(start))
    (command,) = fed(frame, 65_536)
    assert len(command["body"]) == MAX_FRAME - len(start)


def test_the_longest_header_is_read() -> None:
    start = b'{"code":1,"extFields":{"a":"'
    text = start + b"x" * (MAX_HEADER - len(start) - 3) + b'"}}'
    (command,) = FrameReader().feed(struct.pack(">ii", 4 + len(text), len(text)) + text)
    assert len(command.ext["a"]) == MAX_HEADER - len(start) - 3


def test_the_largest_frame_is_written() -> None:
    rest = len(encode(Command(code=1, ext={"a": ""})))
    assert len(encode(Command(code=1, ext={"a": ""}, body=bytes(MAX_FRAME - rest)))) == MAX_FRAME
    assert len(encode(Command(code=1, ext={"a": "x" * (MAX_HEADER + 8 - rest)}))) == MAX_HEADER + 8


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (
            Command(code=1, body=bytes(MAX_FRAME)),
            "the length of a frame is 16777330; allowed: 4 to 16777212",
        ),
        (
            Command(code=1, ext={"a": "x" * MAX_HEADER}),
            "a header of 1048692 bytes in a frame of 1048696; allowed: at most 1048576",
        ),
        (
            Command(code=1, remark="x" * MAX_HEADER, serialization=ROCKETMQ),
            "a header of 1048597 bytes in a frame of 1048601; allowed",
        ),
    ],
)
def test_frames_too_large_to_read_are_not_written(command: Command, sentence: str) -> None:
    with pytest.raises(FrameError, match=sentence):
        encode(command)


@pytest.mark.parametrize(
    "data",
    [
        b"\x7f\xff\xff\xff\x00\x00\x00\x00",
        b"\x00\xff\xff\xfc\x00\xff\xff\xf8",
        b"\x00\xff\xff\xfc\x00\x00\x00\x0a",
        b"\x00\xff\xff\xfc\x01\x10\x00\x00",
        binary(remark=2**31 - 1),
        binary(ext=2**31 - 1),
        binary(ext=8, rest=b"\x00\x01a\x7f\xff\xff\xff"),
    ],
)
def test_announced_length_allocates_no_memory(data: bytes) -> None:
    tracemalloc.start()
    try:
        FrameReader().feed(data)
    except FrameError:
        pass
    finally:
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert taken < 10_000


def test_a_large_frame_in_small_pieces_is_not_copied_again_and_again() -> None:
    """A reader that copied the frame for each piece would copy 2 GB here, and take seconds."""
    body = bytes(4_000_000)
    frame = struct.pack(">ii", 14 + len(body), 10) + b'{"code":1}' + body
    tracemalloc.start()
    reader = FrameReader()
    for start in range(0, len(frame) - 1_000, 1_000):
        assert reader.feed(frame[start : start + 1_000]) == []
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(frame) - 1_000 <= reader.buffered
    assert taken < 1.5 * len(frame)


int32 = st.integers(-(2**31), 2**31 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
commands = st.builds(
    Command,
    code=int32,
    opaque=int32,
    flag=int32,
    version=int32,
    ext=st.dictionaries(text, text, max_size=8),
    body=st.binary(max_size=100),
    remark=st.none() | text.filter(bool),
    language=st.sampled_from(LANGUAGES),
    serialization=st.just(JSON),
)
short = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
binary_commands = st.builds(
    Command,
    code=st.integers(-(2**15), 2**15 - 1),
    opaque=int32,
    flag=int32,
    version=st.integers(0, 2**16 - 1),
    ext=st.dictionaries(text, short, max_size=8),
    body=st.binary(max_size=100),
    remark=st.none() | short,
    language=st.sampled_from(LANGUAGES),
    serialization=st.just(ROCKETMQ),
)


@given(st.lists(commands | binary_commands, max_size=5), st.integers(1, 400))
def test_random_commands_survive_a_round_trip(written: list[Command], size: int) -> None:
    assert fed(b"".join(map(encode, written)), size) == list(map(fields, written))
