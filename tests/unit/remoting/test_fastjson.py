"""JSON and fastjson's dialect: what is read, what is written, what is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.errors import InvalidArgumentError
from mocketmq.remoting.wire.fastjson import MAX_DEPTH, MAX_DIALECT, MAX_JSON, dumps, loads, object_keys

READ: dict[str, tuple[bytes, Any]] = {
    "numbers as keys": (
        b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.5:10911",-1:"b"},"brokerName":"broker-a"}]}',
        {"brokerDatas": [{"brokerAddrs": {"0": "10.0.0.5:10911", "-1": "b"}, "brokerName": "broker-a"}]},
    ),
    "the same with quotes": (b'{"brokerAddrs":{"0":"a"}}', {"brokerAddrs": {"0": "a"}}),
    "objects as keys": (
        b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:{"offset":5},'
        b'{"brokerName":"b","queueId":1,"topic":"t"}:7}}',
        {
            "offsetTable": {
                '{"brokerName":"b","queueId":0,"topic":"t"}': {"offset": 5},
                '{"brokerName":"b","queueId":1,"topic":"t"}': 7,
            }
        },
    ),
    "objects as keys of objects as keys": (b"{ { {1:2} :3} :4}", {"{ {1:2} :3}": 4}),
    "a heartbeat of C++": (
        b'{"clientID":"ip@1","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,"groupName":"g",'
        b'"messageModel":1,"subscriptionDataSet":[{"codeSet":["97"],"subString":"a","subVersion":"1700000000000",'
        b'"tagsSet":["a"],"topic":"t"}]}],"producerDataSet":[]}\n',
        {
            "clientID": "ip@1",
            "consumerDataSet": [
                {
                    "consumeFromWhere": 0,
                    "consumeType": 1,
                    "groupName": "g",
                    "messageModel": 1,
                    "subscriptionDataSet": [
                        {
                            "codeSet": ["97"],
                            "subString": "a",
                            "subVersion": "1700000000000",
                            "tagsSet": ["a"],
                            "topic": "t",
                        }
                    ],
                }
            ],
            "producerDataSet": [],
        },
    ),
    "single quotes": (rb"{'a':'it\'s \"'}", {"a": "it's \""}),
    "names as keys": (b"{a:1, _b$:2, true:3, 4x:5}", {"a": 1, "_b$": 2, "true": 3, "4x": 5}),
    "a comma after the last": (b"{a:[1,2,],}", {"a": [1, 2]}),
    "white space": (b"\xef\xbb\xbf { a :\t[ 1 ,\r\n{ } , [ ] ]\x0c}\x08\n", {"a": [1, {}, []]}),
    "words and numbers": (
        b"{a:[true,false,null,-1,1.5,-2e3,1E-2,0,007]}",
        {"a": [True, False, None, -1, 1.5, -2e3, 0.01, 0, 7]},
    ),
    "a number beyond 64 bits": (b"{a:123456789012345678901234567890}", {"a": 123456789012345678901234567890}),
    "a number beyond those with a fraction": (b"{a:%b}" % (b"9" * 400), {"a": 10**400 - 1}),
    "escapes": (rb"{a:'\b\f\n\r\t\v\/\\\'\"\u00fc\u0001'}", {"a": "\b\f\n\r\t\v/\\'\"ü\x01"}),
    "any character in a string": (b'{"a":"x\x01y\nz"}', {"a": "x\x01y\nz"}),
    "beyond the BMP": (rb'{a:"\ud83d\ude00"}', {"a": "😀"}),
    "half a character": (rb'{"a":"\ud83d","b":"\ude00\ud83dx"}', {"a": "\ufffd", "b": "\ufffd\ufffdx"}),
    "no UTF-8": (b'{"a":"\xd6\xd0"}', {"a": "\ufffd\ufffd"}),
    "of equal keys the last": (b"{a:1,'a':2}", {"a": 2}),
    "nothing but text": (b"'a'", "a"),
    "nothing but a number": (b" 7\n", 7),
    "as deep as is allowed": (b"[" * MAX_DEPTH + b"1," + b"]" * MAX_DEPTH, None),
}


@pytest.mark.parametrize("name", READ)
def test_what_clients_write_is_read(name: str) -> None:
    data, value = READ[name]
    if value is None:
        value = 1
        for _ in range(MAX_DEPTH):
            value = [value]
    assert loads(data) == value


REFUSED = {
    "nothing": (b"", "no JSON: at character 0 stands '' where a value is expected"),
    "white space only": (b" \n", "no JSON: at character 2 stands '' where a value is expected"),
    "a word": (b"hello", "no JSON: 'hello' without quotes is no value"),
    "a long word": (b"a" * 60_000, "no JSON: 'aaaaaaaaaaaaaaaaaaaa' without quotes is no value"),
    "no number": (b"[NaN]", "no JSON: 'NaN' without quotes is no value"),
    "a key alone": (b'{"a"}', "no JSON: at character 4 stands '}' where ':' is expected"),
    "a key without a value": (b'{"a":}', "no JSON: at character 5 stands '}' where a value is expected"),
    "a comma too many": (b"{,}", "no JSON: at character 1 stands ',}' where a key is expected"),
    "another one": (b"[1,,2]", "no JSON: at character 3 stands ',2]' where a value is expected"),
    "a comma too few": (b"[1 2]", "no JSON: at character 3 stands '2]' where ',' or ']' is expected"),
    "a long one": (b"[1" + b"x" * 30, "at character 2 stands 'xxxxxxxxxxxxxxxxxxxx' where"),
    "in an object": (b"{a:1 b:2}", "no JSON: at character 5 stands 'b:2}' where ',' or '}' is expected"),
    "an array as key": (b"{[1]:2}", "no JSON: at character 1 stands '[1]:2}' where a key is expected"),
    "the wrong bracket": (b"{a:[1}", "no JSON: at character 5 stands '}' where ',' or ']' is expected"),
    "an object that does not end": (
        b"{a:1",
        "no JSON: at character 4 stands '' where ',' or '}' is expected",
    ),
    "text that does not end": (b'{a:"bc\\"', "at character 3 stands '\"bc\\\\\"' where a string that ends"),
    "the wrong quote": (b"{a:\"b'}", "where a string that ends is expected"),
    "an escape at the end": (b'{a:"\\', "where a string that ends is expected"),
    "more behind": (b"{a:1}}", "no JSON: at character 5 stands '}' where the end is expected"),
    "two values": (b"{} {}", "no JSON: at character 3 stands '{}' where the end is expected"),
    "half a fraction": (b"[1.]", "no JSON: at character 2 stands '.]' where ',' or ']' is expected"),
    "half an exponent": (b"[1e]", "no JSON: at character 2 stands 'e]' where ',' or ']' is expected"),
    "a minus alone": (b"[-]", "no JSON: at character 1 stands '-]' where a number is expected"),
    "an unknown escape": (rb'{a:"\x41"}', r"no JSON: '\\x' in a string stands for nothing"),
    "half an escape": (rb'{a:"\u12"}', r"no JSON: '\\u' in a string stands for nothing"),
    "a negative infinite number": (b"[-1e999]", "no JSON: a number out of range"),
    "an infinite number": (b"[1e999]", "no JSON: a number out of range"),
    "a number that is too long": (b"1" * 5_000, "no JSON: a number out of range"),
    "what is too deep": (b"[" * (MAX_DEPTH + 1), "no JSON: more than 64 objects and arrays in each other"),
    "keys that are too deep": (
        b"{" * (MAX_DEPTH + 1),
        "no JSON: more than 64 objects and arrays in each other",
    ),
    "a dialect that is too large": (
        b'{a:"' + b"x" * MAX_DIALECT + b'"}',
        "object keys must be strings (byte 1); more than 65536 bytes have to be standard JSON",
    ),
    "standard JSON that is too deep": (
        b"[" * 100_000 + b"]" * 100_000,
        "while deserializing an object; more than 65536 bytes have to be standard JSON",
    ),
    "what is too large": (b'"%b"' % (b"x" * MAX_JSON), "JSON of 1048578 bytes; allowed: at most 1048576"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_json_is_refused(name: str) -> None:
    data, sentence = REFUSED[name]
    with pytest.raises(InvalidArgumentError) as refused:
        loads(data)
    assert sentence in str(refused.value)
    assert len(str(refused.value)) < 200


def test_the_largest_are_read() -> None:
    text = b"x" * (MAX_JSON - 2)
    assert loads(b'"%b"' % text) == text.decode()
    text = b"x" * (MAX_DIALECT - 2)
    assert loads(b"'%b'" % text) == text.decode()


def test_keys_in_keys_do_not_grow() -> None:
    """Each level that quoted the text of the one below would double it."""
    value = loads(b"{" * 60 + b'"":1' + b"}:1" * 59 + b"}")
    ((key, one),) = value.items()
    assert one == 1
    assert len(key) == 59 + 4 + 3 * 58 + 1


def test_json_is_written_compact() -> None:
    assert dumps({"b": [1, "ü", None, True], "a": {}}) == '{"b":[1,"ü",null,true],"a":{}}'.encode()


def test_objects_as_keys_are_written_as_java_and_go_want_them() -> None:
    queues = [{"brokerName": "broker-a", "queueId": number, "topic": "t"} for number in range(2)]
    body = dumps({"offsetTable": object_keys(zip(queues, (5, 7), strict=True))})
    assert body == (
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"t"}:5,'
        b'{"brokerName":"broker-a","queueId":1,"topic":"t"}:7}}'
    )
    assert [(loads(key.encode()), value) for key, value in loads(body)["offsetTable"].items()] == [
        (queues[0], 5),
        (queues[1], 7),
    ]
    assert dumps({"offsetTable": object_keys([])}) == b'{"offsetTable":{}}'


text = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_standard_json_is_read_as_by_others(value: Any) -> None:
    assert loads(json.dumps(value).encode()) == value
    assert loads(dumps(value)) == value


@given(values)
def test_the_dialect_is_a_superset(value: Any) -> None:
    """A comma after the last element is what makes it one."""
    assert loads(b"[%b,]" % json.dumps(value, indent=1).encode()) == [value]


def in_dialect(value: Any) -> str:
    """The value with single quotes, and commas wherever they may stand."""
    if isinstance(value, dict):
        return "{" + "".join(f"{in_dialect(key)}:{in_dialect(item)}," for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + "".join(f"{in_dialect(item)}," for item in value) + "]"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return json.dumps(value)


@given(values)
def test_the_dialect_is_read(value: Any) -> None:
    assert loads(in_dialect([value]).encode()) == [value]


@given(st.binary(max_size=60) | st.text("{}[]:,'\"\\01ae-+. u", max_size=60).map(str.encode))
def test_anything_is_a_value_or_refused(data: bytes) -> None:
    try:
        value = loads(data)
    except InvalidArgumentError:
        return
    assert loads(dumps(value)) == value
