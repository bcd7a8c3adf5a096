"""Pops and settlements that the broker refuses, with the reasons."""

import json

import pytest

from tests.doors.remoting.popping import (
    ACK,
    BATCH_ACK,
    CHANGE,
    NOTIFICATION,
    PEEK,
    POLLING_INFO,
    POP,
    ack,
    fill,
    pop,
    pop_of,
    settling,
    written,
)
from tests.support.brokers import GROUP, TOPIC
from tests.support.remoting import running_remoting


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"maxMsgNums": 33}, 29, "the broker[127.0.0.1] pop message's num is greater than 32"),
        ({"maxMsgNums": 0}, 29, "maxMsgNums is 0; allowed: 1 to 32"),
        ({"topic": "nowhere"}, 17, "topic[nowhere] not exist"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, 16, "the topic[SCHEDULE_TOPIC_XXXX] pulling message is forbidden"),
        ({"queueId": 4}, 29, "request queueId[4] is illegal"),
        ({"consumerGroup": "no group"}, 1, "group is 'no group'"),
        ({"exp": " || ".join(map(str, range(101)))}, 23, "parse the consumer's subscription failed"),
        ({"expType": "SQL92", "exp": "a >"}, 23, "parse the consumer's subscription failed"),
        ({"expType": "XML", "exp": "a"}, 23, "parse the consumer's subscription failed"),
        ({"attemptId": "a" * 1_025}, 1, "attemptId is 'aaa"),
        ({"invisibleTime": -1}, 1, "invisibleTime is -1"),
        ({"invisibleTime": (1 << 63) - 1}, 1, "invisibleTime is"),
        ({"invisibleTime": None}, 1, "the custom field <invisibleTime> is null"),
    ],
)
async def test_a_refused_pop_gives_its_reason(fields: dict[str, object], code: int, remark: str) -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        answer = await remoting.client.call(POP, pop_of(**fields))
        assert answer.code == code
        assert answer.remark
        assert answer.remark.startswith(remark)
        assert len(await pop(remoting.client)) == 1


@pytest.mark.parametrize("code", [ACK, CHANGE])
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"topic": "nowhere"}, 17),
        ({"queueId": 4}, 13),
        ({"queueId": -1}, 13),
        ({"offset": 1}, 208),
        ({"offset": -1}, 208),
        ({"consumerGroup": "another"}, 26),
        ({"extraInfo": "0 x"}, 1),
        ({"extraInfo": "0 1 2 0 0 broker-a 0 0"}, 208),
    ],
)
async def test_only_popped_messages_can_be_acknowledged(
    code: int, fields: dict[str, object], expected: int
) -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        [one] = await pop(remoting.client)
        answer = await remoting.client.call(code, settling(one.handle, {"invisibleTime": 1_000, **fields}))
        assert answer.code == expected
        assert await ack(remoting.client, one.handle) == 0


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", 208),
        (b"{}", 208),
        (b'{"acks":[]}', 208),
        (b"[]", 1),
        (b'{"acks":[1]}', 1),
        (b'{"acks":[{"c":"billing","t":"orders","b":5}]}', 1),
        (b'{"acks":[{"c":"billing","t":"orders","b":"!"}]}', 1),
        (b'{"acks":[{"c":"billing","t":"orders","b":[256]}]}', 1),
        (b'{"acks":[{"c":"billing","t":"orders","b":["AQ=="]}]}', 1),
        (b'{"acks":[{"c":"billing","t":"orders","r":"9","b":"AQ=="}]}', 1),
        (b'{"acks":[{"c":"billing","t":"nowhere","q":0,"b":"AQ=="}]}', 208),
        (b'{"acks":[{"c":"billing","t":"orders","q":9,"b":"AQ=="}]}', 208),
        (b'{"acks":[{"c":"nobody","t":"orders","q":0,"b":"AQ=="}]}', 208),
        (b'{"acks":[{"c":"CID_RMQ_SYS_HALF","t":"orders","q":0,"b":"AQ=="}]}', 16),
        (json.dumps({"acks": [{"c": GROUP, "t": TOPIC, "b": "/" * 800}] * 2}).encode(), 1),
        (b'{"acks":[{"c":"billing","t":"orders","q":0,"so":9223372036854775807,"pt":1,"b":"/w=="}]}', 208),
        (json.dumps({"acks": [{"c": GROUP, "t": TOPIC, "b": "/" * 8_000}]}).encode(), 1),
    ],
)
async def test_a_malformed_batch_is_refused(body: bytes, code: int) -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        [one] = await pop(remoting.client)
        assert (await remoting.client.call(BATCH_ACK, body=body)).code == code
        assert await ack(remoting.client, one.handle) == 0


async def test_peeks_and_notifications_are_refused_like_pops() -> None:
    async with running_remoting() as remoting:
        await fill(remoting, "a")
        for code in (NOTIFICATION, PEEK, POLLING_INFO):
            for fields, expected in (({"topic": "nowhere"}, 17), ({"queueId": 4}, 29)):
                assert (await remoting.client.call(code, pop_of(**fields))).code == expected


def test_fields_are_written_as_java_does() -> None:
    assert written({"order": True, "exp": None}) == {"order": "true"}
