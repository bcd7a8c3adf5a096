"""A look-up by id reads a bounded number of bytes, however many records bear the unique key."""

from pathlib import Path

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.broker.inspection.history import MAX_FOUND_BYTES
from mocketmq.message.message_id import offset_message_id
from mocketmq.store import message_keys
from tests.support.brokers import running_broker, send
from tests.support.second_directories import send_in

KEY = "A" * 32
BODY = "x" * (MAX_FOUND_BYTES // 4)


async def same_keys(broker: Broker, count: int) -> list[int]:
    """Send messages with one unique key, and return their log offsets."""
    sent = [await send(broker, BODY, UNIQ_KEY=KEY) for _ in range(count)]
    return [one.stored.log_offset for one in sent]


async def test_the_newest_records_are_found_and_the_others_counted() -> None:
    async with running_broker() as broker:
        offsets = await same_keys(broker, 10)
        found = await broker.histories.of(KEY)
        assert [record.log_offset for record in found.records] == offsets[-4:]
        assert found.omitted == 6
        assert {event.order[0] for event in found.life if event.kind == "sent"} <= set(offsets[-4:])


async def test_the_record_that_the_id_names_is_always_found() -> None:
    async with running_broker() as broker:
        offsets = await same_keys(broker, 10)
        store_host = broker.store.writer.store_host
        found = await broker.histories.of(offset_message_id(store_host, offsets[0]))
        assert [record.log_offset for record in found.records] == [offsets[0], *offsets[-4:]]
        assert found.omitted == 5


async def test_a_large_record_alone_is_found() -> None:
    async with running_broker(max_message_bytes=2 * MAX_FOUND_BYTES) as broker:
        await send(broker, BODY, UNIQ_KEY=KEY)
        large = await send(broker, BODY * 5, UNIQ_KEY=KEY)
        found = await broker.histories.of(KEY)
        assert [record.log_offset for record in found.records] == [large.stored.log_offset]
        assert found.omitted == 1


async def test_no_more_records_are_read_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_keys, "MAX_FOUND", 3)
    async with running_broker() as broker:
        sent = [await send(broker, "small", UNIQ_KEY=KEY) for _ in range(9)]
        found = await broker.histories.of(KEY)
        assert [one.log_offset for one in found.records] == [one.stored.log_offset for one in sent[-3:]]
        assert found.omitted == 1


async def test_pending_messages_outside_of_the_store_count(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await same_keys(broker, 3)
        pending = [await send_in(broker, 1_000, BODY, UNIQ_KEY=KEY) for _ in range(6)]
        found = await broker.histories.of(KEY)
        assert [one.unique_key for one in found.records] == [KEY] * 4
        assert [one.log_offset for one in found.records] == [one.stored.log_offset for one in pending[-4:]]
        assert found.omitted == 3
