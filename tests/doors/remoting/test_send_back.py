"""Giving messages back by 36: retries by level, dead letters, and one group that comes by both doors."""

from typing import Any

import pytest

from mocketmq.message.message_id import offset_message_id
from mocketmq.message.properties import decode_properties
from mocketmq.remoting.wire.record import decode_properties as properties_of
from mocketmq.remoting.wire.record import decode_records
from tests.doors.remoting.consuming import (
    DLQ,
    RETRY,
    SEND_BACK,
    Ext,
    commit,
    committed,
    pull,
)
from tests.support.brokers import (
    DELAYS_US,
    GROUP,
    TOPIC,
    S,
    acknowledge,
    bodies,
    receive,
    rows,
    send,
    visible,
)
from tests.support.remoting import RemotingClient, running_remoting


def ext_of(offset: int, level: int = 0, group: str = GROUP, **more: object) -> Ext:
    """The ext fields of a send-back as the Java client writes them."""
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
    """Give a message back; it must succeed."""
    answer = await client.ok(SEND_BACK, ext_of(offset, level, **more))
    assert (answer.body, answer.ext, answer.remark) == (b"", {}, None)


async def test_sixteen_retries_by_level_and_then_a_dead_letter() -> None:
    async with running_remoting() as remoting:
        broker, client = remoting.broker, remoting.client
        original = (await send(broker, queue=2, tag="A", KEYS="k", WAIT="true")).stored
        offset = original.log_offset
        for times in range(16):
            await send_back(client, offset)
            move = await broker.mover.move_to_next()
            assert (move.fired, move.now_us - move.from_us) == (1, DELAYS_US[2 + times])
            answer = await pull(client, times, topic=RETRY)
            [record] = decode_records(answer.body)
            assert (record.reconsume_times, record.topic) == (times + 1, RETRY)
            offset = record.log_offset
        assert properties_of(record.properties) == {
            "TAGS": "A",
            "KEYS": "k",
            "WAIT": "false",
            "UNIQ_KEY": original.unique_key,
            "RETRY_TOPIC": TOPIC,
            "ORIGIN_MESSAGE_ID": offset_message_id(remoting.server.broker_address, original.log_offset),
            "DELAY": "18",
            "REAL_TOPIC": RETRY,
            "REAL_QID": "0",
        }
        await send_back(client, offset)
        assert broker.inspection.pending.count == 0
        [dead] = await visible(broker, DLQ)
        assert (dead.reconsume_times, dead.body, dead.born_us) == (17, original.body, original.born_us)
        assert decode_properties(dead.properties)["DELAY"] == "0"
        assert broker.registry.topics.get(DLQ).perm == 6


@pytest.mark.parametrize(
    ("level", "parked"), [(0, 3), (1, 1), (7, 7), (18, 18), (99, 18), (-1, None), (-7, None)]
)
async def test_the_client_may_name_the_level(level: int, parked: int | None) -> None:
    async with running_remoting() as remoting:
        sent = await send(remoting.broker)
        await send_back(remoting.client, sent.stored.log_offset, level)
        waiting = await remoting.broker.inspection.pending.list()
        assert [one.level for one in waiting] == ([] if parked is None else [parked])
        dead = await visible(remoting.broker, DLQ) if parked is None else []
        assert len(dead) == (parked is None)


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
async def test_the_client_may_say_how_often(version: int, given: dict[str, Any], is_dead: bool) -> None:
    async with running_remoting() as remoting:
        await remoting.broker.registry.groups.put(GROUP, 16, 1)
        sent = await send(remoting.broker)
        await remoting.client.ok(SEND_BACK, ext_of(sent.stored.log_offset, **given), version=version)
        assert remoting.broker.inspection.pending.count == (not is_dead)
        assert bool(remoting.broker.registry.topics.find(DLQ)) == is_dead


async def test_a_group_s_own_limit_counts_otherwise() -> None:
    async with running_remoting() as remoting:
        await remoting.broker.registry.groups.put(GROUP, 0, 3)
        sent = await send(remoting.broker)
        await send_back(remoting.client, sent.stored.log_offset)
        assert len(await visible(remoting.broker, DLQ)) == 1
        await send_back(remoting.client, sent.stored.log_offset, maxReconsumeTimes=1)
        assert remoting.broker.registry.topics.get(RETRY).write_queues == 3


@pytest.mark.parametrize(
    ("given", "code", "remark"),
    [
        ({"group": "nobody"}, 26, "subscription group not exist, nobody"),
        ({"offset": 999}, 1, "look message by offset failed, 999"),
        ({"offset": -1}, 1, "look message by offset failed, -1"),
        (
            {"group": "CID_RMQ_SYS_HALF"},
            16,
            "group[CID_RMQ_SYS_HALF] is the broker's own: it holds half messages",
        ),
        ({"delayLevel": "soon"}, 1, "delayLevel is 'soon'; allowed: a whole number"),
    ],
)
async def test_a_message_cannot_be_given_back(given: dict[str, Any], code: int, remark: str) -> None:
    async with running_remoting(auto_create_groups=False) as remoting:
        await remoting.broker.registry.groups.put(GROUP, 16, 1)
        sent = await send(remoting.broker)
        answer = await remoting.client.call(
            SEND_BACK, ext_of(sent.stored.log_offset) | {k: str(v) for k, v in given.items()}
        )
        assert answer.code == code
        assert str(answer.remark).startswith(remark)
        assert remoting.broker.inspection.pending.count == 0


async def test_a_message_that_still_waits_for_its_time_is_not_there_to_be_given_back() -> None:
    async with running_remoting() as remoting:
        await remoting.broker.registry.groups.put(GROUP, 16, 1)
        parked = (await send(remoting.broker, level=5)).stored
        answer = await remoting.client.call(SEND_BACK, ext_of(parked.log_offset))
        assert (answer.code, answer.remark) == (1, f"look message by offset failed, {parked.log_offset}")


async def test_a_retry_topic_that_may_not_be_written_to_refuses() -> None:
    async with running_remoting() as remoting:
        await remoting.broker.registry.groups.put(GROUP, 16, 1)
        await remoting.broker.registry.topics.put(RETRY, 1, 1, 4)
        sent = await send(remoting.broker)
        answer = await remoting.client.call(SEND_BACK, ext_of(sent.stored.log_offset))
        assert (answer.code, answer.remark) == (16, f"the topic[{RETRY}] sending message is forbidden")


# Both doors


async def test_what_is_given_back_is_no_longer_taken_by_receipt() -> None:
    async with running_remoting() as remoting:
        broker, client = remoting.broker, remoting.client
        await send(broker, "again", queue=0)
        [taken] = await receive(broker)
        await send_back(client, taken.message.log_offset)
        assert (await acknowledge(broker, [taken])).failed
        assert await committed(client) == 1
        await broker.mover.advance(10 * S)
        [again] = await receive(broker)
        assert (again.message.reconsume_times, again.topic, again.message.body) == (1, TOPIC, b"again")
        await broker.mover.advance(3600 * S)
        assert bodies(await receive(broker)) == ["again"]


@pytest.mark.parametrize(("level", "outcome"), [(0, "retried"), (-1, "dead")])
async def test_a_life_tells_what_became_of_the_take(level: int, outcome: str) -> None:
    async with running_remoting() as remoting:
        sent = await send(remoting.broker)
        await receive(remoting.broker)
        await send_back(remoting.client, sent.stored.log_offset, level)
        life = await remoting.broker.inspection.histories.of(sent.stored.unique_key)
        assert [take.outcome for take in life.receipts] == [outcome]


async def test_what_was_acknowledged_by_receipt_is_retried_if_a_consumer_asks_for_it() -> None:
    async with running_remoting() as remoting:
        broker = remoting.broker
        await send(broker, "again", queue=0)
        taken = await receive(broker)
        await acknowledge(broker, taken)
        await send_back(remoting.client, taken[0].message.log_offset)
        await broker.mover.advance(10 * S)
        assert bodies(await receive(broker)) == ["again"]


async def test_retries_pass_between_consumers_by_offset_and_by_receipt() -> None:
    async with running_remoting() as remoting:
        broker, client = remoting.broker, remoting.client
        await send(broker, "pulled", queue=0)
        await send(broker, "received", queue=0)
        [first, second] = await receive(broker)
        await send_back(client, first.message.log_offset)
        await broker.consuming.receiver.give_back(GROUP, [second.handle])
        await broker.mover.advance(10 * S)
        [record, _] = decode_records((await pull(client, topic=RETRY)).body)
        assert (record.body, record.reconsume_times) == (b"pulled", 1)
        await commit(client, 1, topic=RETRY)
        assert bodies(await receive(broker)) == ["received"]


async def test_a_delayed_message_that_is_given_back_is_not_acknowledged(tmp_path: Any) -> None:
    async with running_remoting(data=str(tmp_path)) as remoting:
        client = remoting.client
        for n in range(2):
            await send(remoting.broker, str(n), queue=0, level=1)
        await remoting.broker.mover.advance(1 * S)
        first, _ = decode_records((await pull(client)).body)
        await send_back(client, first.log_offset)
        await commit(client, 2)
    found = rows(tmp_path, "SELECT * FROM deliveries ORDER BY queue_offset")
    assert [row["acked_us"] is not None for row in found] == [False, True]
