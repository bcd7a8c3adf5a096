"""Headers: every request's fields by their wire names, and refusals."""

import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from mocketmq.errors import InvalidArgumentError
from mocketmq.remoting.requests.acknowledging import AckMessageHeader, ChangeInvisibleTimeHeader
from mocketmq.remoting.requests.families import FAMILIES, REQUESTS
from mocketmq.remoting.requests.lookup import QueryMessageHeader, ViewMessageHeader
from mocketmq.remoting.requests.membership import UnregisterClientHeader
from mocketmq.remoting.requests.offsets import (
    QueryConsumerOffsetHeader,
    ResetOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from mocketmq.remoting.requests.popping import (
    NotificationHeader,
    PeekMessageHeader,
    PollingInfoHeader,
    PopMessageHeader,
)
from mocketmq.remoting.requests.pulling import PullMessageHeader
from mocketmq.remoting.requests.queue_headers import QueueHeader
from mocketmq.remoting.requests.recall import RecallMessageHeader
from mocketmq.remoting.requests.send_back import SendBackHeader
from mocketmq.remoting.requests.send_header import SendMessageHeader
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.header import ConsumerGroupHeader, NoHeader, TopicHeader
from tests.support.remoting import READERS

Ext = Mapping[str, str]

QUEUE = {"topic": "t", "queueId": "3"}
PULL = {
    "consumerGroup": "g",
    **QUEUE,
    "queueOffset": "9223372036854775807",
    "maxMsgNums": "32",
    "sysFlag": "6",
    "commitOffset": "-1",
    "suspendTimeoutMillis": "15000",
    "subscription": "a || b",
    "subVersion": "1700000000000",
    "expressionType": "TAG",
    "maxMsgBytes": "2147483647",
}
PULLED = PullMessageHeader(
    "g", "t", 3, 2**63 - 1, 32, 6, -1, 15_000, 1_700_000_000_000, "a || b", "TAG", 2**31 - 1
)
SEND = {
    "producerGroup": "g",
    "topic": "t",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "4",
    "queueId": "-1",
    "sysFlag": "1",
    "bornTimestamp": "1700000000000",
    "flag": "-2147483648",
    "properties": "TAGS\x01a",
    "reconsumeTimes": "2",
    "unitMode": "false",
    "maxReconsumeTimes": "16",
    "batch": "true",
}
SENT = SendMessageHeader(
    *("g", "t", "TBW102", 4, -1, 1, 1_700_000_000_000, -(2**31), "TAGS\x01a", 2, False, 16, True),
)
LETTERS = dict(zip("abcdefghijklm", SEND.values(), strict=True)) | {"n": "broker-a"}

FULL: dict[RequestCode, tuple[Ext, Any]] = {
    RequestCode.SEND_MESSAGE: (SEND, SENT),
    RequestCode.SEND_MESSAGE_V2: (LETTERS, SENT),
    RequestCode.SEND_BATCH_MESSAGE: (LETTERS, SENT),
    RequestCode.PULL_MESSAGE: (PULL, PULLED),
    RequestCode.LITE_PULL_MESSAGE: (PULL, PULLED),
    RequestCode.POP_MESSAGE: (
        {
            "consumerGroup": "g",
            **QUEUE,
            "maxMsgNums": "32",
            "invisibleTime": "60000",
            "pollTime": "15000",
            "initMode": "1",
            "bornTime": "1700000000000",
            "expType": "TAG",
            "exp": "a || b",
            "order": "true",
            "attemptId": "x",
        },
        PopMessageHeader("g", "t", 3, 32, 60_000, 15_000, 1, 1_700_000_000_000, "TAG", "a || b", True, "x"),
    ),
    RequestCode.ACK_MESSAGE: (
        {"consumerGroup": "g", **QUEUE, "extraInfo": "0 1 2 3 0 b 3 7", "offset": "7"},
        AckMessageHeader("g", "t", 3, "0 1 2 3 0 b 3 7", 7),
    ),
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: (
        {
            "consumerGroup": "g",
            **QUEUE,
            "extraInfo": "0 1 2 3 0 b 3 7",
            "offset": "7",
            "invisibleTime": "10000",
        },
        ChangeInvisibleTimeHeader("g", "t", 3, "0 1 2 3 0 b 3 7", 7, 10_000),
    ),
    RequestCode.NOTIFICATION: (
        {
            "consumerGroup": "g",
            **QUEUE,
            "pollTime": "15000",
            "bornTime": "1700000000000",
            "order": "true",
            "attemptId": "x",
        },
        NotificationHeader("g", "t", 3, 15_000, 1_700_000_000_000, True, "x"),
    ),
    RequestCode.PEEK_MESSAGE: (
        {"consumerGroup": "g", **QUEUE, "maxMsgNums": "32"},
        PeekMessageHeader("g", "t", 3, 32),
    ),
    RequestCode.POLLING_INFO: ({"consumerGroup": "g", **QUEUE}, PollingInfoHeader("g", "t", 3)),
    RequestCode.RECALL_MESSAGE: ({"topic": "t", "recallHandle": "djE="}, RecallMessageHeader("t", "djE=")),
    RequestCode.QUERY_MESSAGE: (
        {
            "topic": "t",
            "key": "k",
            "maxNum": "64",
            "beginTimestamp": "0",
            "endTimestamp": "9223372036854775807",
            "_UNIQUE_KEY_QUERY": "true",
            "indexType": "K",
        },
        QueryMessageHeader("t", "k", 64, 0, 2**63 - 1, True, "K"),
    ),
    RequestCode.QUERY_CONSUMER_OFFSET: (
        {"consumerGroup": "g", **QUEUE, "setZeroIfNotFound": "false"},
        QueryConsumerOffsetHeader("g", "t", 3, False),
    ),
    RequestCode.UPDATE_CONSUMER_OFFSET: (
        {"consumerGroup": "g", **QUEUE, "commitOffset": "7"},
        UpdateConsumerOffsetHeader("g", "t", 3, 7),
    ),
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: (
        {**QUEUE, "timestamp": "1700000000000", "boundaryType": "upper"},
        SearchOffsetHeader("t", 3, 1_700_000_000_000, "upper"),
    ),
    RequestCode.GET_MAX_OFFSET: (QUEUE, QueueHeader("t", 3)),
    RequestCode.GET_MIN_OFFSET: (QUEUE, QueueHeader("t", 3)),
    RequestCode.GET_EARLIEST_MSG_STORETIME: (QUEUE, QueueHeader("t", 3)),
    RequestCode.VIEW_MESSAGE_BY_ID: ({"offset": "7"}, ViewMessageHeader(7)),
    RequestCode.HEART_BEAT: ({}, NoHeader()),
    RequestCode.UNREGISTER_CLIENT: (
        {"clientID": "ip@1", "producerGroup": "p", "consumerGroup": "c"},
        UnregisterClientHeader("ip@1", "p", "c"),
    ),
    RequestCode.CONSUMER_SEND_MSG_BACK: (
        {
            "offset": "7",
            "group": "g",
            "delayLevel": "-1",
            "originMsgId": "7F",
            "originTopic": "t",
            "unitMode": "true",
            "maxReconsumeTimes": "16",
        },
        SendBackHeader(7, "g", -1, "7F", "t", True, 16),
    ),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: ({"consumerGroup": "g"}, ConsumerGroupHeader("g")),
    RequestCode.LOCK_BATCH_MQ: ({}, NoHeader()),
    RequestCode.UNLOCK_BATCH_MQ: ({}, NoHeader()),
    RequestCode.CHECK_CLIENT_CONFIG: ({}, NoHeader()),
    RequestCode.GET_ROUTEINFO_BY_TOPIC: ({"topic": "t", "acceptStandardJsonOnly": "true"}, TopicHeader("t")),
    RequestCode.GET_BROKER_CLUSTER_INFO: ({}, NoHeader()),
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: ({}, NoHeader()),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: (
        {"topic": "t", "group": "g", "timestamp": "-1", "isForce": "TRUE", "queueId": "3", "offset": "7"},
        ResetOffsetHeader("t", "g", -1, True, 3, 7),
    ),
}

ANY = {"bname": "broker-a", "nsd": "true", "ns": "n", "oway": "false", "Signature": "", "ReqT": "1"}
"""Ext fields that any request may carry (docs/protocol/remoting.md §2)."""

OPTIONAL: dict[type[Any], Any] = {
    SendMessageHeader: SendMessageHeader(*astuple(SENT)[:8]),
    PullMessageHeader: PullMessageHeader(*astuple(PULLED)[:9]),
    PopMessageHeader: PopMessageHeader("g", "t", 3, 32, 60_000, 15_000, 1),
    NotificationHeader: NotificationHeader("g", "t", 3, 15_000),
    QueryMessageHeader: QueryMessageHeader("t", "k", 64, 0, 2**63 - 1, False),
    QueryConsumerOffsetHeader: QueryConsumerOffsetHeader("g", "t", 3, True),
    SearchOffsetHeader: SearchOffsetHeader("t", 3, 1_700_000_000_000, None),
    UnregisterClientHeader: UnregisterClientHeader("ip@1", None, None),
    SendBackHeader: SendBackHeader(7, "g", -1, None, None, False, None),
    ResetOffsetHeader: ResetOffsetHeader("t", "g", -1, True),
}
"""Headers without their optional fields."""


def test_each_code_is_declared_once() -> None:
    assert sum(len(family.requests) for family in FAMILIES) == len(REQUESTS)


@pytest.mark.parametrize("code", REQUESTS)
def test_a_missing_mandatory_field_is_reported_by_its_name(code: int) -> None:
    reader = READERS[code]
    header = REQUESTS[code].header
    whole = {
        name: "true" if allowed == "true or false" else "1" for name, (_, allowed) in reader.fields.items()
    }
    assert type(reader.read(whole)) is header
    mandatory = len(whole) - len(header.__struct_defaults__)
    for position, name in enumerate(whole):
        rest = {other: text for other, text in whole.items() if other != name}
        assert _is_missed(code, rest, name) is (position < mandatory)


@pytest.mark.parametrize("code", FULL)
def test_a_header_is_read(code: RequestCode) -> None:
    ext, header = FULL[code]
    assert READERS[code].read(ext) == READERS[code].read({**ext, **ANY}) == header
    assert type(READERS[code].read(ext)) is type(header)


@pytest.mark.parametrize("code", FULL)
def test_missing_field_is_optional_or_refused_as_upstream(code: RequestCode) -> None:
    ext, header = FULL[code]
    names = [name for name in ext if name not in ("n", "acceptStandardJsonOnly")]
    mandatory = len(names) - len(header.__struct_defaults__)
    order = sorted(names, key=list(ext).index)
    required = {name for name in order if _is_missed(code, {k: v for k, v in ext.items() if k != name}, name)}
    assert len(required) == mandatory
    least = OPTIONAL.get(type(header), header)
    assert READERS[code].read({name: ext[name] for name in required}) == least


def _is_missed(code: int, ext: Ext, name: str) -> bool:
    try:
        READERS[code].read(ext)
    except InvalidArgumentError as error:
        assert str(error) == f"the custom field <{name}> is null"
        assert error.field == name
        return True
    return False


@pytest.mark.parametrize(("text", "is_batch"), [("true", True), ("FALSE", False), ("1", True), ("0", False)])
def test_the_cpp_client_writes_booleans_as_numbers(text: str, is_batch: bool) -> None:
    assert READERS[310].read({**LETTERS, "m": text}).batch is is_batch


@pytest.mark.parametrize(
    ("code", "name", "text", "sentence"),
    [
        (310, "e", "x", "e is 'x'; allowed: a whole number of 32 bits"),
        (310, "e", "", "e is ''; allowed: a whole number of 32 bits"),
        (310, "e", "1.0", "e is '1.0'; allowed: a whole number of 32 bits"),
        (310, "e", "2147483648", "e is '2147483648'; allowed: a whole number of 32 bits"),
        (310, "h", "-2147483649", "h is '-2147483649'; allowed: a whole number of 32 bits"),
        (310, "l", "null", "l is 'null'; allowed: a whole number of 32 bits"),
        (310, "j", "9" * 5_000, "allowed: a whole number of 32 bits"),
        (310, "g", "9223372036854775808", "g is '9223372036854775808'; allowed: a whole number of 64 bits"),
        (10, "bornTimestamp", "-9223372036854775809", "allowed: a whole number of 64 bits"),
        (310, "m", "2", "m is '2'; allowed: true or false"),
        (310, "k", "", "k is ''; allowed: true or false"),
        (11, "queueOffset", "NaN", "queueOffset is 'NaN'; allowed: a whole number of 64 bits"),
        (12, "_UNIQUE_KEY_QUERY", "yes", "_UNIQUE_KEY_QUERY is 'yes'; allowed: true or false"),
    ],
)
def test_unreadable_fields_are_refused(code: int, name: str, text: str, sentence: str) -> None:
    ext = FULL[RequestCode(code)][0]
    with pytest.raises(InvalidArgumentError) as refused:
        READERS[code].read({**ext, name: text})
    assert sentence in str(refused.value)
    assert refused.value.field == name
    assert len(str(refused.value)) < 200


@given(
    st.sampled_from(list(FULL)),
    st.dictionaries(
        st.sampled_from(sorted({name for ext, _ in FULL.values() for name in ext})),
        st.text(max_size=8) | st.integers().map(str) | st.sampled_from(["true", "false", "null"]),
    ),
)
def test_any_fields_are_a_header_or_refused(code: RequestCode, changes: Ext) -> None:
    try:
        header = READERS[code].read({**FULL[code][0], **changes})
    except InvalidArgumentError:
        return
    assert type(header) is REQUESTS[code].header


def test_only_so_many_texts_are_remembered() -> None:
    read = REQUESTS[30].reader.read
    first = "1000000"
    assert read({"topic": "orders", "queueId": first}).queue_id == 1_000_000
    references = sys.getrefcount(first)
    for number in range(2_000_000, 2_002_000):
        assert read({"topic": "orders", "queueId": str(number)}).queue_id == number
    assert sys.getrefcount(first) < references


def test_the_text_of_a_long_number_is_not_kept() -> None:
    text = " " * 100_000 + "7"
    references = sys.getrefcount(text)
    given = {"topic": "orders", "queueId": text}
    assert REQUESTS[30].reader.read(given).queue_id == 7
    del given
    assert sys.getrefcount(text) == references
