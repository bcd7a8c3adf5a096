"""The weaknesses of the wheel (docs/schemes/wheel.md), one test each."""

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.errors import StoreUnavailableError
from mocketmq.schedule.timer import BATCH
from mocketmq_compat.delay.delayed_file import Entry, decode
from mocketmq_compat.delay.entry_table import EntryTable
from mocketmq_compat.delay.offline import adding
from mocketmq_compat.delay.wheel import wheel_store
from mocketmq_compat.delay.wheel.record import HEAD, SPAN_S
from mocketmq_compat.delay.wheel.wheel_folder import WheelFolder
from mocketmq_compat.delay.wheel.wheel_store import WheelStore
from tests.support.brokers import S, rows, running_broker, visible
from tests.support.delayed_files import made
from tests.support.second_directories import (
    HOUR_MS,
    MS,
    in_order_of_delivery,
    listed,
    no_removal_left,
    scheme_of,
    send_in,
    turn_by_hand,
)

SPAN_MS = SPAN_S * 1_000
FOLDER = "wheel"


@pytest.fixture(autouse=True)
def load_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the scheme load files ahead only when a test asks for it."""
    turn_by_hand(monkeypatch)


@asynccontextmanager
async def wheel(data: Path, **changed: Any) -> AsyncIterator[Broker]:
    async with running_broker(data, timed_scheme="wheel", **changed) as broker:
        yield broker


def store_of(broker: Broker) -> WheelStore:
    store = scheme_of(broker).store
    assert isinstance(store, WheelStore)
    return store


def in_the_wheel(broker: Broker) -> int:
    return sum(len(file.loaded) for file in store_of(broker)._files.values() if file.loaded is not None)


def logs(data: Path) -> list[Path]:
    return sorted((data / FOLDER).glob("*.log"))


def messages_in(path: Path) -> int:
    return path.read_bytes().count(b"mocketmq-delayed 1 sha256")


def aside(data: Path) -> list[str]:
    bad = data / FOLDER / ".bad"
    return sorted(path.name for path in bad.iterdir()) if bad.is_dir() else []


async def advance_to_end(broker: Broker) -> list[str]:
    await broker.mover.advance(30 * 24 * 3_600 * S)
    return await in_order_of_delivery(broker)


@pytest.mark.interpreted
async def test_the_event_loop_reads_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with wheel(tmp_path) as broker:
        for number in range(BATCH):
            await send_in(broker, 1_000, str(number))
        await send_in(broker, 5 * HOUR_MS, "last")
    scan, threads = WheelStore._scan, set[threading.Thread]()

    def noted(store: WheelStore, start: int, size: int) -> EntryTable:
        threads.add(threading.current_thread())
        return scan(store, start, size)

    monkeypatch.setattr(WheelStore, "_scan", noted)
    async with wheel(tmp_path) as broker:
        for act in (partial(broker.mover.advance, S), partial(listed, broker)):
            threads.clear()
            await act()
            assert threads and threading.current_thread() not in threads, act
        assert await advance_to_end(broker) == [*map(str, range(BATCH)), "last"]


async def test_the_file_of_a_message_that_was_just_looked_up_stays_loaded(tmp_path: Path) -> None:
    async with wheel(tmp_path) as broker:
        await send_in(broker, 5 * HOUR_MS, "far")
    async with wheel(tmp_path) as broker:
        store, engine = store_of(broker), scheme_of(broker)
        [message] = await broker.schemes.page(-1, 1)
        await engine.tidy()
        assert len(store.loaded) == 1
        await engine.tidy()
        assert store.loaded == []
        [message] = await broker.schemes.page(-1, 1)
        await engine.tidy()
        async with broker.timer.lock:
            assert broker.schemes.holding(message) is engine


@pytest.mark.interpreted
def test_a_look_up_searches_a_file_in_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    class Noted(bytes):
        def find(self, wanted: bytes, begin: int = 0, end: int | None = None, /) -> int:  # type: ignore[override]
            searched.append((len(self) if end is None else end) - begin)
            return super().find(wanted, begin, end)

    @contextmanager
    def opened(folder: WheelFolder, start: int, _: int | None = None) -> Iterator[Noted]:
        yield Noted((folder.root / f"{start}.log").read_bytes())

    monkeypatch.setattr(wheel_store, "_SEARCHED_BYTES", 16)
    monkeypatch.setattr(WheelFolder, "open", opened)
    store = WheelStore(tmp_path)
    files = [made(f"K{number}", number=number) for number in range(40)]
    for file in files:
        store.write(file.entry, file.content)
    for file in files:
        store.adopt(0)
        store.adopt(0)  # unloads it
        assert store.with_key(file.entry.key_hash) == [file.entry] == store.with_number(file.entry.number)
    assert max(searched) == 16 + 7


async def test_ten_minutes_are_a_file(tmp_path: Path) -> None:
    async with wheel(tmp_path) as broker:
        now_ms = broker.store.clock.now_us() // MS
        next_ms = SPAN_MS - now_ms % SPAN_MS
        for delay_ms in (next_ms, next_ms + SPAN_MS - 1, next_ms + SPAN_MS):
            await send_in(broker, delay_ms)
        first = (now_ms + next_ms) // 1_000
        names = [f"{first}.log", f"{first + SPAN_S}.log"]
        assert [path.name for path in logs(tmp_path)] == names
        assert [messages_in(path) for path in logs(tmp_path)] == [2, 1]
        figures = broker.schemes.file_figures()
        assert (figures.parts, figures.disk_bytes) == (2, sum(p.stat().st_size for p in logs(tmp_path)))


async def test_messages_sent_while_a_file_is_loaded_are_in_the_wheel_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with wheel(tmp_path) as broker:
        await send_in(broker, 1, "soon")  # so that the other message is not in the first file
        await send_in(broker, HOUR_MS, "before")
        store = store_of(broker)
        await scheme_of(broker).tidy()
        assert len(store.loaded) == 1
        loop, scan = asyncio.get_running_loop(), store._scan

        def scan_and_send(start: int, size: int) -> EntryTable:
            sending = [send_in(broker, HOUR_MS, "before it is read")]
            asyncio.run_coroutine_threadsafe(sending.pop(), loop).result()
            found = scan(start, size)
            asyncio.run_coroutine_threadsafe(send_in(broker, HOUR_MS, "after"), loop).result()
            return found

        with monkeypatch.context() as loading:
            loading.setattr(store, "_scan", scan_and_send)
            await asyncio.to_thread(store.adopt, broker.store.clock.now_us() + HOUR_MS * MS)
        assert len(store.loaded) == 2
        assert (broker.schemes.pending, store.count, len([*store.all()])) == (4, 4, 4)
        assert await advance_to_end(broker) == ["soon", "before", "before it is read", "after"]


@pytest.mark.parametrize("left", [1, HEAD.size - 1, HEAD.size, HEAD.size + 100])
async def test_a_record_that_a_kill_has_torn_is_cut_off(tmp_path: Path, left: int) -> None:
    async with wheel(tmp_path) as broker:
        await send_in(broker, HOUR_MS, "whole")
        [path] = logs(tmp_path)
        size = path.stat().st_size
        await send_in(broker, HOUR_MS, "torn")
    os.truncate(path, size + left)
    async with wheel(tmp_path) as broker:
        assert path.stat().st_size == size
        assert await listed(broker) == ["whole"]
        await send_in(broker, HOUR_MS, "behind it")
    async with wheel(tmp_path) as broker:
        assert await advance_to_end(broker) == ["whole", "behind it"]
    assert aside(tmp_path) == [f"{path.stem}-{size}", f"{path.stem}-{size}.reason"]


async def test_a_damaged_record_costs_no_other(tmp_path: Path) -> None:
    async with wheel(tmp_path) as broker:
        for body in ("one", "head", "three", "content", "five"):
            await send_in(broker, HOUR_MS, body)
        [path] = logs(tmp_path)
    content = bytearray(path.read_bytes())
    second = content.find(b"MMW1", 1)
    content[second + 15] ^= 1
    content[content.find(b"content")] ^= 1
    path.write_bytes(content)
    for _ in range(2):
        async with wheel(tmp_path) as broker:
            assert await listed(broker) == ["one", "three", "five"]
    async with wheel(tmp_path) as broker:
        assert await advance_to_end(broker) == ["one", "three", "five"]
        figures = broker.schemes.file_figures()
        assert (figures.quarantined, dict(figures.put_aside)) == (2, {"checksum": 1})
        await no_removal_left(broker)
    assert logs(tmp_path) == []
    names = aside(tmp_path)
    assert (len(names), f"{path.stem}-{second}" in names) == (4, True)


async def test_a_file_whose_messages_are_all_cancelled_is_removed(tmp_path: Path) -> None:
    async with wheel(tmp_path) as broker:
        for delay_ms in (HOUR_MS, HOUR_MS, 9 * HOUR_MS):
            await send_in(broker, delay_ms, str(delay_ms))
        async with broker.timer.lock:
            await broker.schemes.cancel(await broker.schemes.page(-1, 2))
        await no_removal_left(broker)
        assert [messages_in(path) for path in logs(tmp_path)] == [1]
        assert broker.schemes.next_delivery_us() == (await broker.schemes.page(-1, 1))[0].due_us
        assert await advance_to_end(broker) == [str(9 * HOUR_MS)]
        await no_removal_left(broker)
        assert logs(tmp_path) == []


async def test_a_clock_that_moves_over_many_files_delivers_each_at_its_time(tmp_path: Path) -> None:
    delays_ms = [*range(7, 3 * 24 * HOUR_MS, 997 * 1_000)]
    async with wheel(tmp_path) as broker:
        await asyncio.gather(*(send_in(broker, delay_ms, str(delay_ms)) for delay_ms in delays_ms[::-1]))
        assert len(logs(tmp_path)) > 200
        await scheme_of(broker).tidy()
        assert len(store_of(broker).loaded) <= 3
        assert (await broker.mover.advance(3 * 24 * 3_600 * S)).fired == len(delays_ms)
        assert await in_order_of_delivery(broker) == [*map(str, delays_ms)]
        await no_removal_left(broker)
    assert logs(tmp_path) == []
    assert rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us <> due_us") == []


async def test_files_whose_time_has_passed_are_delivered_at_the_start_in_order(tmp_path: Path) -> None:
    async with wheel(tmp_path) as broker:
        now_ms = broker.store.clock.now_us() // MS
    with adding("wheel", tmp_path / FOLDER, lambda *_: None) as new:
        for hours, number in ((3, 1), (1, 2), (2, 3)):
            new.add_message(decode(made(f"{hours}", number=number, due_ms=now_ms - hours * HOUR_MS).content))
        new.sync()
    async with wheel(tmp_path) as broker:
        await broker.mover.advance(0)  # waits for messages that are already due
        assert [m.unique_key for m in await visible(broker)] == ["3", "2", "1"]
        await no_removal_left(broker)
    assert logs(tmp_path) == []


@pytest.mark.parametrize("count", [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
async def test_many_messages_in_one_file(tmp_path: Path, count: int) -> None:
    async with wheel(tmp_path, delay_sync="never") as broker:
        for begin in range(0, count, 1_000):
            await asyncio.gather(
                *(send_in(broker, HOUR_MS + number % SPAN_MS) for number in range(begin, begin + 1_000))
            )
        assert len(logs(tmp_path)) <= 3
    async with wheel(tmp_path) as broker:
        assert broker.schemes.pending == count
        assert broker.schemes.next_delivery_us() is not None
        assert (await broker.mover.advance(2 * HOUR_MS * MS)).fired == count
        assert broker.schemes.early == 0
        await no_removal_left(broker)
    assert logs(tmp_path) == []
    [found] = rows(tmp_path, "SELECT count(*) AS n, max(abs(delivered_us - due_us)) AS late FROM deliveries")
    assert found == {"n": count, "late": 0}


@pytest.mark.parametrize("is_begun", [False, True], ids=["before its removal", "during its removal"])
async def test_a_message_for_a_file_that_is_just_being_removed_is_kept(
    tmp_path: Path, is_begun: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with wheel(tmp_path) as broker:
        await send_in(broker, HOUR_MS, "last")
        store = store_of(broker)
        loop, forget, remove = asyncio.get_running_loop(), store.forget, store.folder.remove_file
        sends = []

        def send_new() -> None:
            sends.append(asyncio.run_coroutine_threadsafe(send_in(broker, HOUR_MS, "new"), loop))

        def send_and_forget(entries: Iterable[Entry]) -> list[Entry]:
            send_new()
            sends[0].result()
            return forget(entries)

        def send_and_remove(start: int) -> None:
            send_new()
            remove(start)

        with monkeypatch.context() as removing:
            if is_begun:
                removing.setattr(store.folder, "remove_file", send_and_remove)
            else:
                removing.setattr(store, "forget", send_and_forget)
            async with broker.timer.lock:
                await broker.schemes.cancel(await broker.schemes.page(-1, 1))
            await no_removal_left(broker)
        await asyncio.wrap_future(sends[0])
        assert await listed(broker) == ["new"]
    async with wheel(tmp_path) as broker:
        assert await listed(broker) == ["new"]
        assert await advance_to_end(broker) == ["new"]


async def test_memory_holds_only_what_is_due_soon(tmp_path: Path) -> None:
    async with wheel(tmp_path) as broker:
        await send_in(broker, 1_000)
        for number in range(300):
            await send_in(broker, HOUR_MS + number * SPAN_MS // 10)
        await scheme_of(broker).tidy()
        assert in_the_wheel(broker) == 1
        assert await broker.schemes.page(-1, 1_000)
        [found] = await broker.schemes.page((await broker.schemes.page(-1, 200))[-1].log_offset, 1)
        assert await broker.schemes.find_by_key(found.unique_key) == [found]
        assert in_the_wheel(broker) > 1
        await scheme_of(broker).tidy()  # keeps files that were used since the turn before
        await scheme_of(broker).tidy()
        assert in_the_wheel(broker) == 1
        assert broker.schemes.pending == 301
        assert broker.schemes.next_delivery_us() is not None
        assert sum(broker.schemes.due_seconds().values()) == 301
    async with wheel(tmp_path) as broker:
        assert in_the_wheel(broker) == 1
        assert BATCH <= len(scheme_of(broker).entries.read_ahead.entries) < 301
        assert len(await advance_to_end(broker)) == 301


async def test_a_disk_that_is_full_within_a_record_leaves_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with wheel(tmp_path) as broker:
        await send_in(broker, HOUR_MS, "before")
        [path] = logs(tmp_path)
        size = path.stat().st_size
        pwrite, writes = os.pwrite, []

        def fill(fd: int, data: bytes, offset: int) -> int:
            writes.append(offset)
            if len(writes) > 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return pwrite(fd, data[:50], offset)

        with monkeypatch.context() as full:
            full.setattr(os, "pwrite", fill)
            with pytest.raises(
                StoreUnavailableError, match="No space left on device; no part of it was stored"
            ):
                await send_in(broker, HOUR_MS, "refused")
        assert (len(writes), path.stat().st_size) == (2, size)
        await send_in(broker, HOUR_MS, "after")
    async with wheel(tmp_path) as broker:
        assert await advance_to_end(broker) == ["before", "after"]


async def test_a_file_that_cannot_be_read_yet_is_loaded_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with wheel(tmp_path) as broker:
        await send_in(broker, 3 * HOUR_MS, "later")

    def fail(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as broken:
        broken.setattr(WheelStore, "_scan", fail)
        async with wheel(tmp_path) as broker:
            assert broker.schemes.next_delivery_us() is None
            await send_in(broker, 4 * HOUR_MS, "last")
            assert broker.schemes.pending == 2
            with pytest.raises(StoreUnavailableError):
                await broker.schemes.page(-1, 2)
            broken.undo()
            await scheme_of(broker).tidy()
            assert await advance_to_end(broker) == ["later", "last"]


async def test_a_foreign_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    foreign = [tmp_path / FOLDER / name for name in ("notes", "1.log", "0600.log")]
    for path in foreign:
        path.write_text("mine")
    async with wheel(tmp_path) as broker:
        assert broker.schemes.file_figures().put_aside == {"ignored": 3}
    assert [path.read_text() for path in foreign] == ["mine"] * 3
