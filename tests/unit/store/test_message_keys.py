"""The key index lags behind the store, but lookups never see the lag."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.clock import LATEST_US
from mocketmq.message.message import Message, StoredMessage
from mocketmq.store import message_keys
from mocketmq.store.database import Database
from mocketmq.store.message_keys import MessageKeys, index_hash, keys_of
from mocketmq.store.messages import fitting_messages_at
from tests.support.brokers import TOPIC, S, bodies, rows, running_broker, send
from tests.support.patience import PATIENCE_S


def keys_of_broker(broker: Broker) -> MessageKeys:
    return broker.histories._keys


async def test_a_lookup_finds_a_message_just_sent(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for n in range(50):
            sent = await send(broker, KEYS=f"k{n}")
            assert await broker.histories.records(sent.stored.unique_key) == [sent.stored]
            assert await broker.histories.by_key(f"k{n}") == [sent.stored]


async def test_lookup_catches_up_in_many_steps() -> None:
    async with running_broker() as broker:
        broker.message_keys.step = 10
        await broker.sender.send_batch([Message(TOPIC, b"%d" % n, {"KEYS": "all"}) for n in range(105)])
        assert len(await broker.histories.by_key("all", limit=1_000)) == 105
        assert bodies(await broker.histories.by_key("all", limit=25)) == [str(n) for n in range(25)]


async def test_lookup_ends_when_a_snapshot_is_restored_meanwhile() -> None:
    async with running_broker() as broker:
        await send(broker, "saved", KEYS="all")
        await broker.snapshots.save("here")
        broker.message_keys.step = 10
        async with asyncio.timeout(PATIENCE_S):
            async with broker.message_keys.pausing():
                await broker.sender.send_batch([Message(TOPIC, b"later", {"KEYS": "all"})] * 30)
                lookup = asyncio.create_task(broker.histories.by_key("all"))
                restore = asyncio.create_task(broker.snapshots.restore("here"))
                while not broker.timer.lock.locked():  # noqa: ASYNC110 - a lock sets no event
                    await asyncio.sleep(0)
            await restore
            assert bodies(await lookup) == ["saved"]


async def test_newest_messages_are_found_over_many_steps() -> None:
    async with running_broker() as broker:
        broker.message_keys.step = 10
        await broker.sender.send_batch([Message(TOPIC, b"%d" % n, {"KEYS": "all"}) for n in range(105)])
        newest = keys_of_broker(broker).newest
        assert bodies(await newest("all", 25, lambda *_: True)) == [str(n) for n in range(80, 105)]
        assert bodies(await newest("all", 3, lambda *_: True)) == ["102", "103", "104"]
        assert len(await newest("all", 1_000, lambda *_: True)) == 105
        assert await newest("none", 9, lambda *_: True) == []


@pytest.mark.interpreted
async def test_lookup_reads_no_messages_of_other_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    async def counted(
        database: Database, log_offsets: Sequence[int], max_bytes: int, *, or_first: bool
    ) -> tuple[dict[int, StoredMessage], int]:
        read.extend(log_offsets)
        return await fitting_messages_at(database, log_offsets, max_bytes, or_first=or_first)

    monkeypatch.setattr(message_keys, "fitting_messages_at", counted)
    async with running_broker() as broker:
        broker.message_keys.step = 10
        wanted = (await send(broker, KEYS="all")).stored
        for _ in range(3):
            batch = [Message("elsewhere", b"%d" % n, {"KEYS": "all"}) for n in range(40)]
            await broker.sender.send_batch(batch)
        assert await broker.histories.by_key("all", TOPIC) == [wanted]
        assert await broker.histories.query(TOPIC, "all", 1, 0, wanted.store_us) == [wanted]
        assert await broker.histories.query("elsewhere", "all", 1, wanted.store_us + 1, LATEST_US) == []
        assert read == [wanted.log_offset] * 2


async def test_lookup_from_either_end_reads_up_to_the_limit() -> None:
    async with running_broker() as broker:
        await broker.sender.send_batch([Message(TOPIC, b"%04d" % n, {"KEYS": "all"}) for n in range(9)])
        histories, newest = broker.histories, keys_of_broker(broker).newest
        for room, count in ((3, 1), (4, 1), (11, 2), (12, 3)):
            assert bodies(await histories.by_key("all", max_bytes=room)) == [f"{n:04}" for n in range(count)]
            last = await newest("all", 9, lambda *_: True, room)
            assert bodies(last) == [f"{n:04}" for n in range(9 - count, 9)]


@pytest.mark.interpreted
async def test_different_keys_with_one_hash_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_keys, "index_hash", lambda _key: 7)
    async with running_broker() as broker:
        sent = [(await send(broker, KEYS=f"k{n}")).stored for n in range(5)]
        for n in range(5):
            assert await broker.histories.by_key(f"k{n}", limit=1) == [sent[n]]
            for key in (f"k{n}", sent[n].unique_key):
                assert await keys_of_broker(broker).newest(key, 9, lambda *_: True) == [sent[n]]
            assert await broker.histories.records(sent[n].unique_key) == [sent[n]]


async def test_keys_and_unique_keys_are_separate() -> None:
    async with running_broker() as broker:
        one = (await send(broker, UNIQ_KEY="one", KEYS="two")).stored
        two = (await send(broker, UNIQ_KEY="two", KEYS="one")).stored
        assert (
            await broker.histories.records("one"),
            await broker.histories.by_key("one"),
        ) == ([one], [two])


async def test_the_index_follows_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MessageKeys, "interval_s", 0.001)
    async with running_broker(tmp_path) as broker:
        await send(broker, KEYS="a b", queue=0)
        keys = keys_of_broker(broker)
        async with asyncio.timeout(PATIENCE_S):
            while keys.is_behind:
                await broker.pull.browse(TOPIC, 0, 0, 1)
        assert len(rows(tmp_path, "SELECT * FROM message_keys")) == 3


async def test_two_concurrent_updates_write_the_index_once() -> None:
    async with running_broker() as broker:
        await send(broker, KEYS="a")
        before = broker.store.writer.commits
        await asyncio.gather(*(broker.histories.by_key("a") for _ in range(5)))
        assert broker.store.writer.commits <= before + 1


async def test_index_resumes_after_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        first = (await send(broker, KEYS="k")).stored
        assert await broker.histories.by_key("k") == [first]
        later = (await send(broker, KEYS="k", level=1)).stored
    async with running_broker(tmp_path) as broker:
        await broker.mover.advance(1 * S)
        found = await broker.histories.by_key("k")
        assert [record.log_offset for record in found] == [0, 1, 2]
        assert found[:2] == [first, later]
        assert not keys_of_broker(broker).is_behind


def test_a_message_is_indexed_by_its_unique_key_and_each_of_its_keys_once() -> None:
    properties = "KEYS\x01a  b a\x02TAGS\x01c\x02"
    assert keys_of("u", properties) == {index_hash(key) for key in "uab"}
    assert keys_of("u", "") == {index_hash("u")}


def test_hashes_fit_sqlites_integers() -> None:
    assert all(-(2**63) <= index_hash(key) < 2**63 for key in ("", "k", "订单", "\ud83d"))
