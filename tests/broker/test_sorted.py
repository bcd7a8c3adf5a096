"""The weaknesses R1 to R11 of the article's sorted keys (docs/schemes/sorted.md), one test each."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.errors import StoreUnavailableError
from mocketmq.store.writer import Writer
from mocketmq_compat.delay import front
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.parked_message import entry_of
from mocketmq_compat.delay.sorted.rocks import Rocks
from mocketmq_compat.delay.sorted.sorted_store import SortedStore
from mocketmq_compat.delay.stored_scheme import StoredScheme
from tests.support.brokers import Refusing, S, bodies, receive, rows, running_broker, visible
from tests.support.delayed_files import made
from tests.support.patience import HANGING_S
from tests.support.second_directories import HOUR_MS, MS, in_order_of_delivery, listed, send_in

SORTED: dict[str, Any] = {"timed_scheme": "sorted"}


def scheme_of(broker: Broker) -> StoredScheme:
    """The scheme behind the broker's interface."""
    scheme = broker.schemes.timed()
    assert isinstance(scheme, StoredScheme)
    return scheme


def store_of(broker: Broker) -> SortedStore:
    store = scheme_of(broker).store
    assert isinstance(store, SortedStore)
    return store


def put(store: SortedStore, *due_ms: int) -> list[Entry]:
    files = [made(f"K{number}", due_ms=due, number=number) for number, due in enumerate(due_ms, 1)]
    for file in files:
        store.write(file.entry, file.content)
    return [file.entry for file in files]


def test_r1_a_repeat_is_refused_by_its_key_and_nothing_else_is(tmp_path: Path) -> None:
    """A Bloom filter may take a new key for an old one: here the key itself is looked up."""
    store = SortedStore(tmp_path)
    entries = put(store, *range(1_000, 3_000))
    assert store.count == 2_000
    again = made("K7", b"another body", due_ms=1_006, number=7)
    store.write(again.entry, again.content)
    assert (store.count, store.read(again.entry)) == (2_000, made("K7", due_ms=1_006, number=7).content)
    same_time = made("other", due_ms=1_006, number=7)
    store.write(same_time.entry, same_time.content)
    assert sorted(store.first(3_000, ())) == sorted([*entries, same_time.entry])
    assert store.with_number(7) == sorted([entries[6], same_time.entry], key=lambda entry: entry.key_hash)


def test_r2_keys_sort_as_numbers_whatever_their_length(tmp_path: Path) -> None:
    store = SortedStore(tmp_path)
    entries = put(store, 10_000_000_000_000, 999, 1_700_000_000_000, 1_000, 0)
    assert store.first(9, ()) == sorted(entries)
    assert store.first(2, {min(entries)}) == sorted(entries)[1:3]
    assert [*store.all()] == sorted(entries)
    assert store.by_arrival(2, 2) == entries[2:4]
    assert store.with_key(entries[3].key_hash) == [entries[3]]
    assert store.last_number == 5


async def test_r3_deliveries_wait_for_no_scan(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **SORTED) as broker:
        for delay_ms in (1_234, 1_001, 5 * HOUR_MS + 7, 1):
            await send_in(broker, delay_ms, str(delay_ms))
        await broker.mover.advance(6 * HOUR_MS * MS)
        assert await in_order_of_delivery(broker) == ["1", "1001", "1234", "18000007"]
        assert broker.schemes.early == 0
    assert rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us <> due_us") == []


async def test_r4_a_kill_between_sending_and_deleting_repeats_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with running_broker(data, **SORTED) as broker:
        sent = [await send_in(broker, 1_000 * number, str(number)) for number in range(1, 5)]
        shutil.copytree(data / "sorted", tmp_path / "copies")
        await broker.mover.advance(1 * S)
        await broker.inspection.pending.deliver_now(sent[1].stored.unique_key)
        await broker.inspection.pending.cancel(sent[2].stored.unique_key)
    for _ in range(2):  # the second time as a backup that somebody copies back
        shutil.rmtree(data / "sorted")
        shutil.copytree(tmp_path / "copies", data / "sorted")
        async with running_broker(data, **SORTED) as broker:
            await broker.mover.advance(60 * S)
            assert bodies(await visible(broker)) == ["1", "2", "4"]
            assert (scheme_of(broker).repeats >= 3, broker.schemes.pending) == (True, 0)
    once = rows(data, "SELECT count(DISTINCT parked_offset) AS once, count(*) AS times FROM deliveries")
    assert once == [{"once": 3, "times": 3}]


async def test_r5_a_record_that_cannot_be_read_is_put_aside_and_not_deleted(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **SORTED) as broker:
        sent = [await send_in(broker, 1_000, str(number)) for number in range(4)]
        store, entry = store_of(broker), entry_of(sent[2].stored)
        content = store.read(entry)
        store.forget([entry])
        store.write(entry, content[:-1] + b"X")
        assert (await broker.mover.advance(1 * S)).fired == 3
        assert bodies(await visible(broker)) == ["0", "1", "3"]
        state = broker.schemes.file_figures()
        assert (state.quarantined, state.put_aside, broker.schemes.pending) == (1, {"checksum": 1}, 0)
        bad = tmp_path / "sorted" / ".bad" / entry.name
        assert bad.read_bytes() == content[:-1] + b"X"
        assert "checksum" in bad.with_name(f"{bad.name}.reason").read_text()
    async with running_broker(tmp_path, **SORTED) as broker:
        assert broker.schemes.file_figures().quarantined == 1


async def test_r6_a_delivery_that_the_store_refuses_is_tried_again_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, **SORTED) as broker:
        for number in range(3):
            await send_in(broker, 1_000 + number, str(number))
        async with Refusing(broker, monkeypatch):
            with pytest.raises(StoreUnavailableError):
                await broker.mover.advance(1 * S)
            assert broker.schemes.pending == 3
        await broker.mover.advance(2 * S)
        assert await in_order_of_delivery(broker) == ["0", "1", "2"]


async def test_r7_reading_begins_behind_what_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocksDB keeps a mark for each removed key, and a reader steps over all of them."""
    monkeypatch.setattr(front, "SIZE", 8)
    started: list[bytes] = []
    real = Rocks.keys

    def keys(rocks: Rocks, start: bytes, kind: bytes, limit: int) -> list[bytes]:
        if kind == b"d":
            started.append(start)
        return real(rocks, start, kind, limit)

    async with running_broker(tmp_path, delay_sync="never", **SORTED) as broker:
        for number in range(60):
            await send_in(broker, 1_000 + number, str(number))
        assert len(scheme_of(broker)._front.entries) <= 16
        monkeypatch.setattr(Rocks, "keys", keys)
        assert (await broker.mover.advance(2 * S)).fired == 60
        assert len(started) > 3
        assert started == sorted(started)
        assert started[-1] > started[0]
        await send_in(broker, 1, "before all of them")
        assert (await broker.mover.advance(1 * S)).fired == 1


async def test_r8_a_send_is_answered_when_its_record_is_durable_and_deleted_after_its_delivery_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    delivered, durable = asyncio.Event(), asyncio.Event()

    def noting(name: str) -> None:
        real = getattr(SortedStore, name)

        def noted(store: SortedStore, entries: Iterable[Entry]) -> None:
            steps.append(name)
            real(store, entries)

        monkeypatch.setattr(SortedStore, name, noted)

    async def synced(_: Writer) -> None:
        delivered.set()
        await durable.wait()

    noting("sync")
    noting("forget")
    async with running_broker(tmp_path, **SORTED) as broker:
        await send_in(broker, 1_000)
        assert steps == ["sync"]
        with monkeypatch.context() as patch:
            patch.setattr(Writer, "synced", synced)
            moving = asyncio.create_task(broker.mover.advance(1 * S))
            await delivered.wait()
            assert steps == ["sync"], "delivered, but power may fail"
            durable.set()
            assert (await moving).fired == 1
            await scheme_of(broker).marked()
        assert steps == ["sync", "forget"]


async def test_r9_a_disk_that_refuses_keeps_nothing_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed write RocksDB takes no other, so it is opened again."""

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with running_broker(tmp_path, **SORTED) as broker:
        await send_in(broker, 1_000, "kept")
        store_of(broker)._rocks._has_failed = True
        await send_in(broker, 1_000, "after opening it again")
        for name in ("write", "sync"):
            with monkeypatch.context() as patch:
                patch.setattr(SortedStore, name, refuse)
                with pytest.raises(StoreUnavailableError, match="No space left"):
                    await send_in(broker, 1_000, f"refused by {name}")
        with monkeypatch.context() as patch:
            patch.setattr(SortedStore, "forget", refuse)
            assert (await broker.mover.advance(1 * S)).fired == 2
            await scheme_of(broker).marked()
            assert (await broker.mover.advance(1 * S)).fired == 0, "not deleted, but known as done with"
        await scheme_of(broker).tidy()
        assert (broker.schemes.pending, broker.schemes.file_figures().unremoved) == (0, 0)
        assert bodies(await visible(broker)) == ["kept", "after opening it again"]


async def test_r10_a_defect_in_one_pass_ends_no_delivery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    firing, failures = StoredScheme.firing, list[int]()

    def fail_once(scheme: StoredScheme, until_us: int) -> Any:
        if not failures:
            failures.append(until_us)
            raise ZeroDivisionError("a defect in a pass")
        return firing(scheme, until_us)

    monkeypatch.setattr(StoredScheme, "firing", fail_once)
    async with running_broker(tmp_path, clock="real", **SORTED) as broker:
        for body in ("first", "second"):
            await send_in(broker, 5, body)
            assert bodies(await receive(broker, wait_s=HANGING_S)) == [body], "the timer has ended"
    assert len(failures) == 1


FULL = """
import resource, sys
from pathlib import Path
from mocketmq_compat.delay.sorted.sorted_store import SortedStore
from tests.support.delayed_files import made
store = SortedStore(Path(sys.argv[1]))
def write(number):
    file = made(f"K{number}", b"x" * 1000, number=number)
    store.write(file.entry, file.content)
    store.sync([])
write(1)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
refused = 0
for number in range(2, 12):
    try:
        write(number)
    except OSError:
        refused += 1
assert 0 < refused < 10, refused
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
write(12)
found = [entry.number for entry in store.first(99, ())]
assert (found[0], found[-1], len(found), store.count) == (1, 12, 12 - refused, 12 - refused), found
store.close()
assert [entry.number for entry in SortedStore(Path(sys.argv[1])).first(99, ())] == found
"""


def test_after_a_full_disk_it_goes_on_by_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


async def test_a_log_without_its_end_loses_its_last_record_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with running_broker(data, **SORTED) as broker:
        for number in range(3):
            await send_in(broker, 1_000, str(number))
        shutil.copytree(data / "sorted", tmp_path / "copies")
    shutil.rmtree(data / "sorted")
    shutil.copytree(tmp_path / "copies", data / "sorted")
    [log] = [path for path in (data / "sorted" / "db").glob("*.log") if path.stat().st_size]
    os.truncate(log, log.stat().st_size - 7)
    async with running_broker(data, **SORTED) as broker:
        assert await listed(broker) == ["0", "1"]
        await broker.mover.advance(1 * S)
        assert await in_order_of_delivery(broker) == ["0", "1"]
        assert broker.schemes.pending == 0


async def test_r11_without_the_extra_it_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "mocketmq_compat.delay.sorted.sorted_store", raising=False)
    monkeypatch.delitem(sys.modules, "mocketmq_compat.delay.sorted.rocks", raising=False)
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with pytest.raises(
        StoreUnavailableError, match="rocksdict is not installed: install mocketmq with its extra 'sorted'"
    ):
        async with running_broker(tmp_path, **SORTED):
            pass


async def test_another_version_and_a_broken_database_are_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **SORTED) as broker:
        await send_in(broker, 1_000)
        store_of(broker)._rocks.write({b"v": b"2"}, [])
    with pytest.raises(StoreUnavailableError, match="version"):
        async with running_broker(tmp_path, **SORTED):
            pass
    (tmp_path / "sorted" / "db" / "CURRENT").write_text("nonsense")
    with pytest.raises(StoreUnavailableError, match="Corruption"):
        async with running_broker(tmp_path, **SORTED):
            pass
