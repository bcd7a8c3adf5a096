"""The weaknesses R1 to R11 of the article's sorted keys (docs/schemes/sorted.md), one test each."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.errors import StoreUnavailableError
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.sorted import rocks
from mocketmq_compat.delay.sorted.rocks import Rocks
from mocketmq_compat.delay.sorted.sorted_store import DATABASE, SortedStore
from mocketmq_compat.delay.stored_scheme import StoredScheme
from tests.support.brokers import S, bodies, running_broker, visible
from tests.support.delayed_files import made
from tests.support.patience import PATIENCE_S
from tests.support.second_directories import in_order_of_delivery, listed, send_in

SORTED: dict[str, Any] = {"timed_scheme": "sorted"}


def scheme_of(broker: Broker) -> StoredScheme:
    """Return the scheme behind the broker's interface."""
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
    """A Bloom filter may mistake a new key for an old key, so the store looks up the key itself."""
    store = SortedStore(tmp_path)
    entries = put(store, *range(1_000, 3_000))
    assert store.count == 2_000
    again = made("K7", b"another body", due_ms=1_006, number=7)
    store.write(again.entry, again.content)
    assert (store.count, store.read(again.entry)) == (2_000, made("K7", due_ms=1_006, number=7).content)
    same_time = made("other", due_ms=1_006, number=7)
    store.write(same_time.entry, same_time.content)
    assert sorted(store.first_records(3_000, ())) == sorted([*entries, same_time.entry])
    assert store.with_number(7) == sorted([entries[6], same_time.entry], key=lambda entry: entry.key_hash)


def test_r2_keys_sort_as_numbers_whatever_their_length(tmp_path: Path) -> None:
    store = SortedStore(tmp_path)
    entries = put(store, 10_000_000_000_000, 999, 1_700_000_000_000, 1_000, 0)
    assert store.first_records(9, ()) == sorted(entries)
    assert store.first_records(2, {min(entries)}) == sorted(entries)[1:3]
    assert [*store.all()] == sorted(entries)
    assert store.by_arrival(2, 2) == entries[2:4]
    assert store.with_key(entries[3].key_hash) == [entries[3]]
    assert store.last_number == 5


async def test_r7_reading_begins_behind_what_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocksDB keeps a tombstone for each removed key, and a reader would step over all of them."""
    started: list[bytes] = []
    real = Rocks.keys

    def keys(rocks: Rocks, start: bytes, kind: bytes, limit: int) -> list[bytes]:
        if kind == b"d":
            started.append(start)
        return real(rocks, start, kind, limit)

    async with running_broker(tmp_path, delay_sync="never", **SORTED) as broker:
        scheme_of(broker).entries.read_ahead.size = 8
        for number in range(60):
            await send_in(broker, 1_000 + number, str(number))
        monkeypatch.setattr(Rocks, "keys", keys)
        assert (await broker.mover.advance(2 * S)).fired == 60
        assert len(started) > 3
        assert started == sorted(started)
        assert started[-1] > started[0]
        await send_in(broker, 1, "before all of them")
        assert (await broker.mover.advance(1 * S)).fired == 1


async def test_r9_after_a_failed_write_it_is_opened_again(tmp_path: Path) -> None:
    """RocksDB itself refuses all writes after a failed write."""
    async with running_broker(tmp_path, **SORTED) as broker:
        await send_in(broker, 1_000, "kept")
        store_of(broker)._rocks._has_failed = True
        await send_in(broker, 1_000, "after opening it again")
        assert (await broker.mover.advance(1 * S)).fired == 2
        assert bodies(await visible(broker)) == ["kept", "after opening it again"]


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
found = [entry.number for entry in store.first_records(99, ())]
assert (found[0], found[-1], len(found), store.count) == (1, 12, 12 - refused, 12 - refused), found
store.close()
assert [entry.number for entry in SortedStore(Path(sys.argv[1])).first_records(99, ())] == found
"""


def test_the_broker_recovers_by_itself_after_a_full_disk(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


SYNC = """
import os, resource, sys
from pathlib import Path
from mocketmq_compat.delay.sorted.sorted_store import SortedStore
from tests.support.delayed_files import made
store = SortedStore(Path(sys.argv[1]))
def write(number, size):
    file = made(f"K{number}", b"x" * size, number=number)
    store.write(file.entry, file.content)
write(1, 1000)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
try:
    write(2, 9000)
except OSError:
    pass
else:
    raise AssertionError
synced, fsync = set(), os.fsync
def noted(fd):
    fsync(fd)
    synced.add(os.fstat(fd).st_ino)
os.fsync = noted
store.sync([])
folder = Path(sys.argv[1], "db")
assert synced == {path.stat().st_ino for path in (folder, *folder.glob("*.log"))}, synced
"""


def test_after_a_failed_write_the_other_records_of_the_group_are_synced(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SYNC, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_look_up_finds_all_messages_with_a_key(tmp_path: Path) -> None:
    store = SortedStore(tmp_path)
    files = [made("K", number=number) for number in range(2_100)]
    for file in files:
        store.write(file.entry, file.content)
    assert store.with_key(files[0].entry.key_hash) == [file.entry for file in files]


def test_no_look_up_waits_for_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SortedStore(tmp_path)
    [entry] = put(store, 1_000)
    found = []

    def sync(_: Path) -> None:
        found.append(another.submit(store.holds, entry).result(PATIENCE_S))

    monkeypatch.setattr(rocks, "sync_path", sync)
    with ThreadPoolExecutor(1) as another:
        store.sync([entry])
    assert found == [True, True]


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


def test_a_damaged_file_does_not_look_like_the_end_of_the_messages(tmp_path: Path) -> None:
    entries = [Entry(1_800_000_000_000, number, number) for number in range(5_000)]
    store = SortedStore(tmp_path)
    for entry in entries:
        store.write(entry, os.urandom(500))
    store.close()
    SortedStore(tmp_path).close()  # moves RocksDB's log to a file of sorted keys
    for file in (tmp_path / DATABASE).glob("*.sst"):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0xFF
        file.write_bytes(content)
    store = SortedStore(tmp_path)
    with pytest.raises(OSError, match="block checksum mismatch"):
        store.first_records(len(entries), ())
    with pytest.raises(OSError, match="block checksum mismatch"):
        [*store.all()]
    store.close()
