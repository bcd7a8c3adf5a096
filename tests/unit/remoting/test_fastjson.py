"""JSON and fastjson's dialect: reading, writing and refusals."""

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
def test_json_of_clients_is_read(name: str) -> None:
    data, value = READ[name]
    if value is None:
        value = 1
        for _ in range(MAX_DEPTH):
            value = [value]
    assert loads(data) == value


REFUSED = {
    "nothing": (b"", "not JSON: at character 0 a value is expected, not ''"),
    "white space only": (b" \n", "not JSON: at character 2 a value is expected, not ''"),
    "a word": (b"hello", "not JSON: 'hello' without quotes is not a value"),
    "a long word": (b"a" * 60_000, "not JSON: 'aaaaaaaaaaaaaaaaaaaa' without quotes is not a value"),
    "no number": (b"[NaN]", "not JSON: 'NaN' without quotes is not a value"),
    "a key alone": (b'{"a"}', "not JSON: at character 4 ':' is expected, not '}'"),
    "a key without a value": (b'{"a":}', "not JSON: at character 5 a value is expected, not '}'"),
    "a comma too many": (b"{,}", "not JSON: at character 1 a key is expected, not ',}'"),
    "another one": (b"[1,,2]", "not JSON: at character 3 a value is expected, not ',2]'"),
    "a comma too few": (b"[1 2]", "not JSON: at character 3 ',' or ']' is expected, not '2]'"),
    "a long one": (b"[1" + b"x" * 30, "expected, not 'xxxxxxxxxxxxxxxxxxxx'"),
    "in an object": (b"{a:1 b:2}", "not JSON: at character 5 ',' or '}' is expected, not 'b:2}'"),
    "an array as key": (b"{[1]:2}", "not JSON: at character 1 a key is expected, not '[1]:2}'"),
    "the wrong bracket": (b"{a:[1}", "not JSON: at character 5 ',' or ']' is expected, not '}'"),
    "an object that does not end": (
        b"{a:1",
        "not JSON: at character 4 ',' or '}' is expected, not ''",
    ),
    "text that does not end": (b'{a:"bc\\"', "at character 3 a string with a closing quote is expected"),
    "the wrong quote": (b"{a:\"b'}", "a string with a closing quote is expected"),
    "an escape at the end": (b'{a:"\\', "a string with a closing quote is expected"),
    "more behind": (b"{a:1}}", "not JSON: at character 5 the end is expected, not '}'"),
    "two values": (b"{} {}", "not JSON: at character 3 the end is expected, not '{}'"),
    "half a fraction": (b"[1.]", "not JSON: at character 2 ',' or ']' is expected, not '.]'"),
    "half an exponent": (b"[1e]", "not JSON: at character 2 ',' or ']' is expected, not 'e]'"),
    "a minus alone": (b"[-]", "not JSON: at character 1 a number is expected, not '-]'"),
    "an unknown escape": (rb'{a:"\x41"}', r"not JSON: '\\x' is not an escape"),
    "half an escape": (rb'{a:"\u12"}', r"not JSON: '\\u' is not an escape"),
    "a negative infinite number": (b"[-1e999]", "not JSON: a number out of range"),
    "an infinite number": (b"[1e999]", "not JSON: a number out of range"),
    "a number that is too long": (b"1" * 5_000, "not JSON: a number out of range"),
    "what is too deep": (b"[" * (MAX_DEPTH + 1), "not JSON: nested more than 64 levels deep"),
    "keys that are too deep": (
        b"{" * (MAX_DEPTH + 1),
        "not JSON: nested more than 64 levels deep",
    ),
    "a dialect that is too large": (
        b'{a:"' + b"x" * MAX_DIALECT + b'"}',
        "object keys must be strings (byte 1); texts longer than 65536 bytes must be standard JSON",
    ),
    "standard JSON that is too deep": (
        b"[" * 100_000 + b"]" * 100_000,
        "while deserializing an object; texts longer than 65536 bytes must be standard JSON",
    ),
    "what is too large": (b'"%b"' % (b"x" * MAX_JSON), "JSON of 1048578 bytes; allowed: at most 1048576"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_json_is_refused(name: str) -> None:
    data, sentence = REFUSED[name]
    with pytest.raises(InvalidArgumentError) as refused:
        loads(data)
    assert sentence in str(refused.value)
    assert len(str(refused.value)) < 200


def test_largest_documents_are_read() -> None:
    text = b"x" * (MAX_JSON - 2)
    assert loads(b'"%b"' % text) == text.decode()
    text = b"x" * (MAX_DIALECT - 2)
    assert loads(b"'%b'" % text) == text.decode()


def test_nested_object_keys_grow_linearly() -> None:
    """If each level quoted the text of the level below, each level would double the size."""
    value = loads(b"{" * 60 + b'"":1' + b"}:1" * 59 + b"}")
    ((key, one),) = value.items()
    assert one == 1
    assert len(key) == 59 + 4 + 3 * 58 + 1


def test_json_is_written_compact() -> None:
    assert dumps({"b": [1, "ü", None, True], "a": {}}) == '{"b":[1,"ü",null,true],"a":{}}'.encode()


def test_object_keys_are_written_for_java_and_go() -> None:
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
def test_standard_json_is_read_as_by_other_parsers(value: Any) -> None:
    assert loads(json.dumps(value).encode()) == value
    assert loads(dumps(value)) == value


@given(values)
def test_the_dialect_is_a_superset(value: Any) -> None:
    """The dialect also allows a comma after the last element."""
    assert loads(b"[%b,]" % json.dumps(value, indent=1).encode()) == [value]


def in_dialect(value: Any) -> str:
    """Write the value with single quotes, and with commas wherever the dialect allows them."""
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
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    try:
        value = loads(data)
    except InvalidArgumentError:
        return
    assert loads(dumps(value)) == value
