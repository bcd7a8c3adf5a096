"""Looking messages up by key and by id: 12 and 33."""

from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from mocketmq.clock import US_PER_MS, US_PER_S, wall_us
from mocketmq.message.message_id import offset_message_id
from mocketmq.message.names import SCHEDULE_TOPIC, TIMER_TOPIC
from mocketmq.remoting.requests import lookup
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.record import WireRecord, decode_records
from tests.doors.remoting.consuming import MAX_OFFSET
from tests.doors.remoting.producing import UNIQUE, sent
from tests.support.api import Api
from tests.support.brokers import TOPIC, running_broker, send
from tests.support.remoting import Remoting, running_remoting

QUERY, VIEW = 12, 33
HOUR_MS = 3_600_000
LATEST = (1 << 63) - 1


async def answer_to(remoting: Remoting, key: str, topic: str = TOPIC, **changed: Any) -> Command:
    """Look up a key as the Java client does; ``unique`` for unique keys, ``most``, ``begin``, ``end``."""
    given = {"unique": False, "most": 32, "begin": 0, "end": LATEST, **changed}
    ext = {
        "topic": topic,
        "key": key,
        "maxNum": str(given["most"]),
        "beginTimestamp": str(given["begin"]),
        "endTimestamp": str(given["end"]),
        "_UNIQUE_KEY_QUERY": str(given["unique"]).lower(),
    }
    answer = await remoting.client.call(QUERY, ext)
    assert set(answer.ext) == {"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}
    return answer


async def found(remoting: Remoting, key: str, topic: str = TOPIC, **changed: Any) -> list[WireRecord]:
    """Return the records with the key, or an empty list if the answer reports none."""
    answer = await answer_to(remoting, key, topic, **changed)
    if answer.code == 0:
        records = decode_records(answer.body)
        assert records
        return records
    assert (answer.code, answer.body) == (22, b"")
    assert answer.remark == "can not find message, maybe time range not correct"
    return []


def numbers(records: list[WireRecord]) -> list[int]:
    """Return the bodies as numbers."""
    return [int(record.body) for record in records]


async def viewed(remoting: Remoting, offset: int) -> WireRecord:
    """Return the record at an offset."""
    [record] = decode_records((await remoting.client.ok(VIEW, {"offset": str(offset)})).body)
    return record


# By key


async def test_messages_are_found_by_each_of_their_keys_and_by_their_unique_key() -> None:
    async with running_remoting() as remoting:
        await sent(remoting.client, b"1", properties={"KEYS": "a b", "UNIQ_KEY": UNIQUE})
        await sent(remoting.client, b"2", properties={"KEYS": "b", "UNIQ_KEY": "B"}, queue_id=3)
        await sent(remoting.client, b"3", properties={"KEYS": "b", "UNIQ_KEY": "C"}, topic="other")
        assert numbers(await found(remoting, "a")) == [1]
        assert numbers(await found(remoting, "b")) == [1, 2]
        assert numbers(await found(remoting, "b", "other")) == [3]
        assert numbers(await found(remoting, UNIQUE, unique=True)) == [1]
        assert numbers(await found(remoting, UNIQUE)) == [1]
        for key, topic in (
            ("a b", TOPIC),
            ("c", TOPIC),
            ("", TOPIC),
            ("a", "other"),
            ("a", "none"),
            ("a", ""),
        ):
            assert await found(remoting, key, topic) == []


async def test_lookup_returns_the_whole_record() -> None:
    async with running_remoting() as remoting:
        ext = await sent(remoting.client, b"x", properties={"KEYS": "a"}, queue_id=2, flag=4, sys_flag=1)
        [record] = await found(remoting, "a")
        assert (record.topic, record.queue_id, record.flag, record.sys_flag, record.body) == (
            "orders",
            2,
            4,
            1,
            b"x",
        )
        assert record.store_host == f"127.0.0.1:{remoting.server.broker_port}"
        assert record.log_offset == int(ext["msgId"][16:], 16)
        assert record == await viewed(remoting, record.log_offset)


async def test_newest_messages_are_returned_up_to_the_limit() -> None:
    async with running_remoting() as remoting:
        for number in range(70):
            await sent(remoting.client, str(number).encode(), properties={"KEYS": "a"})
        assert numbers(await found(remoting, "a", most=3)) == [67, 68, 69]
        assert numbers(await found(remoting, "a", most=1000)) == list(range(6, 70))
        assert numbers(await found(remoting, "a", most=1, unique=True)) == list(range(38, 70))
        assert await found(remoting, "a", most=0) == []
        assert await found(remoting, "a", most=-1) == []


async def test_answer_fits_a_frame_but_holds_one_message() -> None:
    async with running_remoting() as remoting:
        for size in ((4 << 20), (2 << 20) - 500, (2 << 20) - 500):
            await sent(remoting.client, b"x" * size, properties={"KEYS": "a"})
        assert [len(record.body) for record in await found(remoting, "a")] == [(2 << 20) - 500] * 2
        await sent(remoting.client, b"y" * (4 << 20), properties={"KEYS": "a"})
        assert [record.body[:1] for record in await found(remoting, "a")] == [b"y"]


async def test_time_range_is_inclusive_wall_clock_time() -> None:
    async with running_remoting(clock="real") as remoting:
        for number in range(3):
            await sent(remoting.client, properties={"KEYS": f"a{number}"})
            [record] = await found(remoting, f"a{number}")
            assert await found(remoting, f"a{number}", begin=record.store_ms, end=record.store_ms) == [record]
            assert await found(remoting, f"a{number}", begin=record.store_ms + 1) == []
            assert await found(remoting, f"a{number}", end=record.store_ms - 1) == []
    async with running_remoting(clock="real") as remoting:
        await remoting.broker.mover.advance(1000 * HOUR_MS * US_PER_MS)
        await sent(remoting.client, b"1", properties={"KEYS": "a"})
        now_ms = wall_us() // US_PER_MS
        assert len(await found(remoting, "a", begin=now_ms - HOUR_MS, end=now_ms + HOUR_MS)) == 1
        assert await found(remoting, "a", begin=now_ms + HOUR_MS) == []
        assert await found(remoting, "a", end=now_ms - HOUR_MS) == []
        assert await found(remoting, "a", begin=-LATEST, end=-LATEST) == []
    async with running_broker() as broker:
        stored = (await send(broker, KEYS="a")).stored
        for from_us, to_us, count in ((0, 0, 1), (1, 1, 0), (-1, -1, 0), (-5, 5, 1)):
            some = await broker.histories.query(
                TOPIC, "a", 9, stored.store_us + from_us, stored.store_us + to_us
            )
            assert len(some) == count


async def test_a_range_up_to_now_includes_messages_stored_under_a_stopped_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lookup, "_LATE_US", 600 * US_PER_S)  # a client on a busy machine may be slow
    async with running_remoting() as remoting:
        await sent(remoting.client, properties={"KEYS": "a"})
        now_ms = wall_us() // US_PER_MS
        while wall_us() // US_PER_MS < now_ms + 2:
            await remoting.client.ok(MAX_OFFSET, {"topic": TOPIC, "queueId": "0"})
        for waited_ms in (0, 9_000):  # the client delays its request
            assert len(await found(remoting, "a", end=now_ms - waited_ms)) == 1
        assert await found(remoting, "a", end=now_ms - HOUR_MS) == []


async def test_unique_key_is_found_after_clock_moves() -> None:
    async with running_remoting() as remoting:
        begin = wall_us() // US_PER_MS - 1_000
        await sent(remoting.client, b"1", properties={"UNIQ_KEY": UNIQUE})
        await remoting.broker.mover.advance(HOUR_MS * US_PER_MS)
        assert await found(remoting, UNIQUE, begin=begin) == []
        assert numbers(await found(remoting, UNIQUE, begin=begin, unique=True)) == [1]


async def test_pending_messages_are_found_in_the_brokers_own_topics() -> None:
    async with running_remoting() as remoting:
        keys = {"KEYS": "a", "UNIQ_KEY": UNIQUE}
        await sent(remoting.client, b"1", properties={"DELAY": "1", **keys})
        await sent(remoting.client, b"2", properties={"TIMER_DELAY_MS": "5000", **keys})
        for key in ("a", UNIQUE):
            assert await found(remoting, key) == []
            assert numbers(await found(remoting, key, SCHEDULE_TOPIC)) == [1]
        assert numbers(await found(remoting, UNIQUE, TIMER_TOPIC)) == [2]
        assert await found(remoting, UNIQUE, TIMER_TOPIC, most=0) == []
        await remoting.broker.mover.advance(5 * US_PER_S)
        for key in ("a", UNIQUE):
            assert numbers(await found(remoting, key)) == [1, 2]
            assert numbers(await found(remoting, key, SCHEDULE_TOPIC)) == [1]  # the parked record stays
        assert await found(remoting, UNIQUE, TIMER_TOPIC) == []


async def test_waiting_message_precedes_a_cancelled_one() -> None:
    async with running_remoting() as remoting:
        given = {"TIMER_DELAY_MS": "5000", "UNIQ_KEY": UNIQUE}
        ids = [(await sent(remoting.client, body, properties=given))["msgId"] for body in (b"1", b"2")]
        await remoting.broker.pending.cancel(ids[0])
        assert numbers(await found(remoting, UNIQUE, TIMER_TOPIC)) == [1, 2]
        assert numbers(await found(remoting, UNIQUE, TIMER_TOPIC, most=1)) == [2]
        assert (
            await found(remoting, offset_message_id("127.0.0.1:10911", int(ids[1][16:], 16)), TIMER_TOPIC)
            == []
        )


async def test_response_has_the_index_position() -> None:
    async with running_remoting() as remoting:
        assert (await answer_to(remoting, "a")).ext["indexLastUpdatePhyoffset"] == "-1"
        for _ in range(3):
            await sent(remoting.client)
        ext = (await answer_to(remoting, "a")).ext
        assert ext["indexLastUpdatePhyoffset"] == "2"
        assert ext["indexLastUpdateTimestamp"] == str(remoting.broker.store.writer.last_store_us // US_PER_MS)


async def test_lookup_continues_over_several_steps() -> None:
    async with running_broker() as broker:
        messages = [
            (await send(broker, str(n), KEYS="a", topic="b" if n < 5 else "a")).stored for n in range(1_100)
        ]
        newest = await broker.histories.query("b", "a", 3, 0, LATEST)
        assert newest == messages[2:5]
        assert await broker.histories.query("a", "a", 1_050, 0, LATEST) == messages[50:]


# By id


async def test_message_is_found_by_offset_in_any_topic(tmp_path: Path) -> None:
    async with running_remoting(data=str(tmp_path / "data")) as remoting:
        offsets = []
        for number, given in enumerate(
            [{}, {"DELAY": "1"}, {"TIMER_DELAY_SEC": "1"}, {"TIMER_DELAY_SEC": "2"}]
        ):
            ext = await sent(remoting.client, str(number).encode(), properties=given)
            offsets.append(int(ext["msgId"][16:], 16))
        topics = [TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC, TIMER_TOPIC]
        for number, (offset, topic) in enumerate(zip(offsets, topics, strict=True)):
            record = await viewed(remoting, offset)
            assert (record.body, record.topic, record.log_offset) == (str(number).encode(), topic, offset)
        await remoting.broker.mover.advance(1 * US_PER_S)
        topics[2] = TOPIC
        for number, (offset, topic) in enumerate(zip(offsets, topics, strict=True)):
            record = await viewed(remoting, offset)
            assert (record.body, record.topic) == (str(number).encode(), topic)
        for offset in (-1, offsets[3] + 1, 1_000_000, LATEST, -LATEST - 1):
            answer = await remoting.client.call(VIEW, {"offset": str(offset)})
            assert (answer.code, answer.remark) == (1, f"can not find message by the offset, {offset}")


@pytest.mark.parametrize("given", [{}, {"DELAY": "1"}, {"TIMER_DELAY_SEC": "1"}])
async def test_offset_id_is_accepted_at_every_door(given: dict[str, str]) -> None:
    async with running_remoting(advertise="10.1.2.3:1234") as remoting, ClientSession() as session:
        api = Api(remoting.emulator, session)
        message_id = (await sent(remoting.client, properties={"UNIQ_KEY": UNIQUE, **given}))["msgId"]
        assert message_id.startswith("0A010203000004D2")
        for _ in range(2):
            for asked in (message_id, message_id.lower(), UNIQUE):
                life = await api.ok("GET", f"/v1/messages/{asked}")
                assert life["message_id"] == UNIQUE
            await remoting.broker.mover.advance(1 * US_PER_S)
        other = f"{message_id[:16]}{int(message_id[16:], 16) + 7:016X}"
        problem = await api.refused(404, "GET", f"/v1/messages/{other}")
        assert problem["detail"] == f"no message has the id '{other}'; it may have been removed"


async def test_pending_message_is_cancelled_by_its_offset_id() -> None:
    async with running_remoting(advertise="10.1.2.3:1234") as remoting:
        for given in ({"DELAY": "1"}, {"TIMER_DELAY_SEC": "1"}):
            ext = await sent(remoting.client, properties={"UNIQ_KEY": UNIQUE, **given})
            await remoting.broker.pending.cancel(ext["msgId"])
        assert not remoting.broker.pending.count


@pytest.mark.parametrize(("index", "code"), [("K", 0), ("T", 3)])
async def test_messages_are_found_by_keys_but_not_by_tags(remoting: Remoting, index: str, code: int) -> None:
    """RocketMQ 5.5's clients name the index, which they also have for tags."""
    await sent(remoting.client, b"urgent", properties={"KEYS": "k", "TAGS": "k"})
    ext = {"topic": TOPIC, "key": "k", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(LATEST)}
    answer = await remoting.client.call(QUERY, {**ext, "indexType": index, "lastKey": ""})
    assert answer.code == code
    assert not code or str(answer.remark).startswith("indexType is T, for tags; allowed: K")
