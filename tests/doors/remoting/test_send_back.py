"""Sending messages back by 36; ``tests/broker/test_retries_by_offset.py`` tests the effects."""

from typing import Any

import pytest

from mocketmq.message.message_id import offset_message_id
from mocketmq.remoting.wire.record import decode_properties as properties_of
from mocketmq.remoting.wire.record import decode_records
from tests.doors.remoting.consuming import DLQ, RETRY, SEND_BACK, Ext, pull
from tests.support.brokers import GROUP, TOPIC, send
from tests.support.remoting import RemotingClient, running_remoting


def ext_of(offset: int, level: int = 0, group: str = GROUP, **more: object) -> Ext:
    """Return the ext fields of a send-back as the Java client writes them."""
    given = {
        "offset": offset,
        "group": group,
        "delayLevel": level,
        "originMsgId": "AC11",
        "originTopic": TOPIC,
        "unitMode": "false",
        **more,
    }
    return {name: str(value) for name, value in given.items()}


async def send_back(client: RemotingClient, offset: int, level: int = 0, **more: Any) -> None:
    """Send a message back, which must succeed."""
    answer = await client.ok(SEND_BACK, ext_of(offset, level, **more))
    assert (answer.body, answer.ext, answer.remark) == (b"", {}, None)


async def test_message_given_back_is_retried_with_upstreams_properties() -> None:
    async with running_remoting() as remoting:
        broker, client = remoting.broker, remoting.client
        original = (await send(broker, queue=2, tag="A", KEYS="k", WAIT="true")).stored
        await send_back(client, original.log_offset)
        assert (await broker.mover.move_to_next()).fired == 1
        [record] = decode_records((await pull(client, topic=RETRY)).body)
        assert (record.reconsume_times, record.topic) == (1, RETRY)
        assert properties_of(record.properties) == {
            "TAGS": "A",
            "KEYS": "k",
            "WAIT": "false",
            "UNIQ_KEY": original.unique_key,
            "RETRY_TOPIC": TOPIC,
            "ORIGIN_MESSAGE_ID": offset_message_id(remoting.server.broker_address, original.log_offset),
            "DELAY": "3",
            "REAL_TOPIC": RETRY,
            "REAL_QID": "0",
        }


@pytest.mark.parametrize(("level", "is_dead"), [(7, False), (-1, True)])
async def test_client_chooses_the_level(level: int, is_dead: bool) -> None:
    async with running_remoting() as remoting:
        sent = await send(remoting.broker)
        await send_back(remoting.client, sent.stored.log_offset, level)
        assert [one.level for one in await remoting.broker.pending.list()] == ([] if is_dead else [level])
        assert bool(remoting.broker.registry.topics.find_topic(DLQ)) == is_dead


@pytest.mark.parametrize(
    ("version", "given", "is_dead"),
    [
        (409, {"maxReconsumeTimes": 0}, True),
        (121, {"maxReconsumeTimes": 0}, True),
        (120, {"maxReconsumeTimes": 0}, False),
        (2_147_481_762, {"maxReconsumeTimes": 0}, True),
        (409, {"maxReconsumeTimes": 1}, False),
        (409, {"maxReconsumeTimes": 2_147_483_647}, False),
        (409, {}, False),
    ],
)
async def test_clients_from_121_on_choose_the_retry_limit(
    version: int, given: dict[str, Any], is_dead: bool
) -> None:
    async with running_remoting() as remoting:
        await remoting.broker.registry.groups.put(GROUP, 16, 1)
        sent = await send(remoting.broker)
        await remoting.client.ok(SEND_BACK, ext_of(sent.stored.log_offset, **given), version=version)
        assert remoting.broker.pending.count == (not is_dead)
        assert bool(remoting.broker.registry.topics.find_topic(DLQ)) == is_dead


@pytest.mark.parametrize(
    ("given", "code", "remark"),
    [
        ({"group": "nobody"}, 26, "subscription group not exist, nobody"),
        ({"offset": 999}, 1, "look message by offset failed, 999"),
        ({"offset": -1}, 1, "look message by offset failed, -1"),
        (
            {"group": "CID_RMQ_SYS_HALF"},
            16,
            "group[CID_RMQ_SYS_HALF] belongs to the broker, which uses it for half messages",
        ),
        ({"delayLevel": "soon"}, 1, "delayLevel is 'soon'; allowed: a whole number"),
    ],
)
async def test_refusals_have_upstreams_codes(given: dict[str, Any], code: int, remark: str) -> None:
    async with running_remoting(auto_create_groups=False) as remoting:
        await remoting.broker.registry.groups.put(GROUP, 16, 1)
        sent = await send(remoting.broker)
        answer = await remoting.client.call(
            SEND_BACK, ext_of(sent.stored.log_offset) | {k: str(v) for k, v in given.items()}
        )
        assert answer.code == code
        assert str(answer.remark).startswith(remark)
        assert remoting.broker.pending.count == 0


async def test_unwritable_retry_topic_is_refused() -> None:
    async with running_remoting() as remoting:
        await remoting.broker.registry.groups.put(GROUP, 16, 1)
        await remoting.broker.registry.topics.put(RETRY, 1, 1, 4)
        sent = await send(remoting.broker)
        answer = await remoting.client.call(SEND_BACK, ext_of(sent.stored.log_offset))
        assert (answer.code, answer.remark) == (16, f"the topic[{RETRY}] sending message is forbidden")
