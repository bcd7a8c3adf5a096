"""Second directories save a batch completely or not at all, and refuse messages if the disk is full."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.errors import (
    IllegalMessageError,
    StoreFullError,
    StoreUnavailableError,
    wire_codes,
)
from mocketmq.message.message import Message
from mocketmq.message.properties import (
    DELAY,
    START_DELIVER_TIME,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
)
from mocketmq.store.database import Database
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.directories.delay_directory import DelayDirectory
from tests.support.brokers import (
    TOPIC,
    S,
    running_broker,
    send,
    visible,
)
from tests.support.patience import PATIENCE_S
from tests.support.second_directories import (
    MS,
    in_order_of_delivery,
    message_files,
    no_removal_left,
    send_in,
)

# Batches


def batch_of(*properties: dict[str, str]) -> list[Message]:
    return [Message(TOPIC, b"%d" % number, dict(given), 0) for number, given in enumerate(properties)]


MIXED: tuple[dict[str, str], ...] = (
    {TIMER_DELAY_MS: "1001"},
    {},
    {DELAY: "1"},
    {TIMER_DELAY_MS: "500"},
    {TIMER_DELAY_MS: "0"},
)


async def test_each_message_of_a_batch_has_its_own_delay(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        sent = await broker.sender.send_batch(batch_of(*MIXED))
        assert broker.sender.sent == 5
        now_us = broker.clock.now_us()
        due = [one.stored.due_us for one in sent]
        assert due == [now_us + 1_001 * MS, None, now_us + 1 * S, now_us + 500 * MS, None]
        assert len({one.receipt for one in sent}) == 5
        assert await in_order_of_delivery(broker) == ["1", "4"]
        assert (broker.pending.count, broker.schemes.timed().pending) == (3, 2)
        await broker.mover.advance(2 * S)
        assert await in_order_of_delivery(broker) == ["1", "4", "3", "2", "0"]


async def nothing_was_kept(broker: Broker, data: Path) -> None:
    await no_removal_left(broker)
    assert (broker.pending.count, broker.sender.sent, message_files(data)) == (0, 0, [])
    assert broker.schemes.file_figures().disk_bytes == 0
    await broker.mover.advance(60 * S)
    if broker.registry.topics.find_topic(TOPIC):
        assert await visible(broker) == []


async def test_batch_with_a_refused_message_is_refused_whole(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for wrong in ({START_DELIVER_TIME: "tomorrow"}, {TIMER_DELAY_SEC: "259201"}, {"a": ""}):
            with pytest.raises(IllegalMessageError):
                await broker.sender.send_batch(batch_of(*MIXED, wrong))
        await nothing_was_kept(broker, tmp_path)


async def test_batch_is_stored_whole_when_its_sender_disconnects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.registry.topics.ensure(TOPIC, 4)
        keep, keeping = broker.schemes.timed().keep, asyncio.Event()

        async def seen(*args: Any) -> Any:
            keeping.set()
            return await keep(*args)

        monkeypatch.setattr(broker.schemes.timed(), "keep", seen)
        sender = asyncio.create_task(broker.sender.send_batch(batch_of(*MIXED)))
        await keeping.wait()
        sender.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sender
        with broker.polls.listening([TOPIC]) as arrival:
            async with asyncio.timeout(PATIENCE_S):
                while not await visible(broker):
                    await arrival.wait()
        assert await in_order_of_delivery(broker) == ["1", "4"]
        assert (broker.pending.count, broker.schemes.timed().pending) == (3, 2)


async def test_a_message_to_a_topic_deleted_meanwhile_is_taken_back_though_its_sender_disconnects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.registry.topics.ensure(TOPIC, 4)
        scheme = broker.schemes.timed()
        keep, keeping, go, kept = scheme.keep, asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def slow(*args: Any) -> Any:
            keeping.set()
            await go.wait()
            result = await keep(*args)
            kept.set()
            return result

        monkeypatch.setattr(scheme, "keep", slow)
        sender = asyncio.create_task(send(broker, TIMER_DELAY_SEC="60"))
        await keeping.wait()
        assert await broker.reset.delete_topic(TOPIC) == 0
        sender.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sender
        go.set()
        async with asyncio.timeout(PATIENCE_S):
            await kept.wait()
            while broker.pending.count:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0)
        await nothing_was_kept(broker, tmp_path)


async def test_batch_with_a_failed_commit_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, topics=()) as broker:
        await broker.registry.topics.ensure(TOPIC, 4)

        async def fail(*_: object) -> None:
            assert len(message_files(tmp_path)) == 2, "the files go first"
            raise StoreUnavailableError("no space left")

        with monkeypatch.context() as patch:
            patch.setattr(Database, "transact", fail)
            with pytest.raises(StoreUnavailableError):
                await broker.sender.send_batch(batch_of(*MIXED))
        await nothing_was_kept(broker, tmp_path)
        await broker.sender.send_batch(batch_of(*MIXED))
        assert broker.pending.count == 3


async def test_batch_with_a_failed_file_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker:
        write, written = DelayDirectory.write, list[Entry]()

        def fail_at_the_last(directory: DelayDirectory, entry: Entry, content: bytes) -> None:
            if len(written) == 2:
                raise OSError(28, "No space left on device")
            written.append(entry)
            write(directory, entry, content)

        with monkeypatch.context() as patch:
            patch.setattr(DelayDirectory, "write", fail_at_the_last)
            with pytest.raises(StoreUnavailableError, match="No space left"):
                await broker.sender.send_batch(batch_of(*MIXED, {TIMER_DELAY_MS: "1500"}))
        assert len(written) == 2
        await nothing_was_kept(broker, tmp_path)


async def test_batch_beyond_the_quota_leaves_no_files(tmp_path: Path) -> None:
    async with running_broker(tmp_path, delay_quota_bytes=2 * 4_096) as broker:
        with pytest.raises(StoreFullError):
            await broker.sender.send_batch(batch_of(*[{TIMER_DELAY_MS: "1000"}] * 3))
        await nothing_was_kept(broker, tmp_path)
        await broker.sender.send_batch(batch_of(*[{TIMER_DELAY_MS: "1000"}] * 2))


# Disk


async def test_quota_refuses_messages_until_a_delivery_frees_room(
    anywhere: Path | str,
) -> None:
    async with running_broker(anywhere, delay_quota_bytes=4 * 4_096) as broker:
        for delay_ms in (1_000, 2_000, 2_001):
            await send_in(broker, delay_ms)
        assert broker.schemes.file_figures().disk_bytes == 3 * 4_096
        with pytest.raises(StoreFullError, match="--delay-quota") as full:
            await send_in(broker, 1, "x" * 4_096)
        assert wire_codes(full.value)[:3] == (507, 14, "InternalError")
        assert broker.schemes.file_figures().disk_bytes == 3 * 4_096
        await send(broker, "the store has its own limits")
        await send(broker, "level", level=1)
        await broker.mover.advance(1 * S)
        await no_removal_left(broker)
        await send_in(broker, 1, "x" * 4_096)
        await broker.pending.cancel((await broker.pending.list())[0].message.unique_key)
        await no_removal_left(broker)
        assert broker.schemes.file_figures().disk_bytes == 3 * 4_096


async def test_disk_use_is_counted_at_the_start(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send_in(broker, 1_000, "x" * 4_096)
        await send_in(broker, 5_000)
        before = broker.schemes.file_figures()
        assert (before.disk_bytes, before.parts) == (3 * 4_096, 2)
    async with running_broker(tmp_path) as broker:
        assert broker.schemes.file_figures() == before
        message_files(tmp_path)[0].write_bytes(b"")
        await broker.mover.advance(1 * S)
        assert (broker.schemes.pending, broker.schemes.file_figures().quarantined) == (1, 1)


async def test_quarantined_files_do_not_count(tmp_path: Path) -> None:
    async with running_broker(tmp_path, delay_quota_bytes=4_096) as broker:
        await send_in(broker, 1_000)
        message_files(tmp_path)[0].write_bytes(b"damaged")
        await broker.mover.advance(1 * S)
        assert broker.schemes.file_figures().disk_bytes == 0
        await send_in(broker, 1_000)
