"""The engine fills its read-ahead from the store while other threads change the store."""

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Container, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.clock import US_PER_MS
from mocketmq.errors import StoreUnavailableError
from mocketmq.message.message_id import Identity
from mocketmq.settings import TimedSchemeName
from mocketmq.store.batch import Batch
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.directories.delay_directory import DelayDirectory
from tests.support.brokers import S, running_broker, send
from tests.support.delayed_files import made
from tests.support.held_up import HeldMarks
from tests.support.second_directories import HOUR_MS, in_order_of_delivery, scheme_of, send_in, turn_by_hand


@pytest.mark.interpreted
@pytest.mark.parametrize("size", [1, 2, 3])
async def test_a_refill_finds_what_is_pending_while_entries_are_marked(
    scheme: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        await send_in(broker, 1_000, "delivered")
        waiting = ["a", "b", "c"]
        for number, body in enumerate(waiting):
            await send_in(broker, HOUR_MS + number, body)
        engine, loop = scheme_of(broker), asyncio.get_running_loop()
        first, marks = engine.store.first_records, HeldMarks(broker, monkeypatch)
        engine.entries.read_ahead.size = size

        async def mark() -> None:
            marks.durable.set()
            await engine.marked()

        def read_and_mark(limit: int, without: Container[Entry]) -> list[Entry]:
            found = first(limit + 1, ())
            marking = [mark()]
            asyncio.run_coroutine_threadsafe(marking.pop(), loop).result()
            return [entry for entry in found if entry not in without][:limit]

        await broker.mover.advance(S)
        assert len(engine.marks.gone) == 1
        with monkeypatch.context() as refilling:
            refilling.setattr(engine.store, "first_records", read_and_mark)
            await engine.entries.refill()
        assert len(engine.entries.read_ahead.entries) == size
        await broker.mover.advance(2 * HOUR_MS * 1_000)
        assert await in_order_of_delivery(broker) == ["delivered", *waiting]
        assert (engine.pending, engine.repeats) == (0, 0)


async def test_while_a_refill_fails_other_deliveries_continue(
    scheme: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> list[Entry]:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        engine = scheme_of(broker)
        engine.entries.read_ahead.size = 1
        for number in range(6):
            await send_in(broker, 60_000 + number, str(number))
        first = await broker.schemes.page(-1, 5)
        await send(broker, "level", level=1)
        with monkeypatch.context() as patch:
            patch.setattr(type(engine.store), "first_records", refuse)
            async with broker.timer.lock:
                assert await broker.schemes.cancel_all(first) == 5
            assert engine.entries.read_ahead.needs_refill
            assert (await broker.mover.advance(S)).fired == 1
            with pytest.raises(StoreUnavailableError, match=os.strerror(errno.EIO)):
                await broker.mover.advance(60 * S)
            assert broker.schemes.pending == 1
        await broker.mover.advance(60 * S)
        assert await in_order_of_delivery(broker) == ["level", "5"]


async def adopt_a_file(
    broker: Broker, folder: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Awaitable[None]]
) -> None:
    """Adopt a file that is due in a second; ``meanwhile`` runs before its adoption ends."""
    engine = scheme_of(broker)
    made(due_ms=broker.clock.now_us() // US_PER_MS + 1_000).put(folder / "delay")
    settled = engine.settled

    async def after(numbers: Sequence[int]) -> set[Identity]:
        await meanwhile()
        return await settled(numbers)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "settled", after)
        await engine.tidy()


async def test_a_file_that_a_refill_finds_before_its_adoption_ends_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_by_hand(monkeypatch)
    async with running_broker(tmp_path) as broker:
        engine = scheme_of(broker)
        await adopt_a_file(broker, tmp_path, monkeypatch, engine.entries.refill)
        assert engine.pending == len(engine.entries.read_ahead.entries) == 1
        await broker.mover.advance(S)
        await engine.marked()
        await broker.mover.advance(S)
        assert (engine.delivered, engine.pending, engine.repeats) == (1, 0, 0)


async def test_a_file_is_not_delivered_before_its_adoption_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise its delivery would be counted before its addition, and its addition would be refused."""
    turn_by_hand(monkeypatch)
    async with running_broker(tmp_path) as broker:
        engine = scheme_of(broker)

        async def refill_and_move() -> None:
            await engine.entries.refill()
            await broker.mover.advance(S)
            await engine.marked()

        await adopt_a_file(broker, tmp_path, monkeypatch, refill_and_move)
        await broker.mover.advance(S)
        assert (engine.delivered, engine.pending, engine.repeats) == (1, 0, 0)


async def test_files_adopted_before_an_error_are_added_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_by_hand(monkeypatch)
    async with running_broker(tmp_path) as broker:
        engine = scheme_of(broker)
        for number in (1, 2):
            due_ms = broker.clock.now_us() // US_PER_MS + 1_000 * number
            made(f"m{number}", due_ms=due_ms).put(tmp_path / "delay", f"{due_ms // 1_000}/copy")
        read, calls = DelayDirectory.read_stray, count()

        def only_once(*args: Any) -> bytes:
            if next(calls):
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return read(*args)

        with monkeypatch.context() as patch, pytest.raises(StoreUnavailableError):
            patch.setattr(DelayDirectory, "read_stray", only_once)
            await engine.tidy()
        await engine.tidy()
        assert engine.pending == 2
        await broker.mover.advance(2 * S)
        assert (engine.delivered, engine.pending) == (2, 0)


async def test_a_settlement_succeeds_though_its_record_cannot_be_looked_up(
    scheme: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is outside of the read-ahead, and the disk fails between the transaction and its commit."""

    def refuse(_: Entry) -> bool:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        engine = scheme_of(broker)
        engine.entries.read_ahead.size = 1
        for number in range(4):
            await send_in(broker, 60_000 + number, str(number))
        last = (await broker.schemes.page(-1, 4))[-1]
        with monkeypatch.context() as patch:

            def work(batch: Batch) -> int:
                batch.on_commit(lambda: patch.setattr(engine.store, "holds", refuse))
                return engine.cancel(batch, [last])

            async with broker.timer.lock:
                assert await broker.store.writer.commit(work) == 1
        assert engine.pending == 3
        await engine.tidy()
        await broker.mover.advance(120 * S)
        assert await in_order_of_delivery(broker) == ["0", "1", "2"]
        await engine.marks.done()
        assert (engine.pending, engine.repeats, engine.file_figures().unremoved) == (0, 0, 0)
