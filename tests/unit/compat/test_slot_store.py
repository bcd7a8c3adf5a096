"""The files of the scheme ``slots``: their format, damage and kills, without a broker."""

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from pathlib import Path

import pytest

from mocketmq.clock import US_PER_MS
from mocketmq.failpoint import ENVIRONMENT
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.slots import data_file, index_file, item_places, slot_store
from mocketmq_compat.delay.slots.data_file import DAY_MS
from mocketmq_compat.delay.slots.hour_index import HourIndex
from mocketmq_compat.delay.slots.index_file import HOUR_MS, ITEMS_AT, SLOT_MS, Item
from mocketmq_compat.delay.slots.slot_store import SlotStore
from tests.support.delayed_files import DUE_MS, made

DAY_START_MS = DUE_MS // DAY_MS * DAY_MS
SLOT_START_MS = DUE_MS // SLOT_MS * SLOT_MS


def put(store: SlotStore, *due_ms: int, first: int = 1) -> list[Entry]:
    """Write a record for each due time, numbered from ``first``, and return the entries."""
    files = [made(f"K{number}", due_ms=due, number=number) for number, due in enumerate(due_ms, first)]
    for file in files:
        store.write(file.entry, file.content)
    store.sync([])
    return [file.entry for file in files]


def waiting(store: SlotStore) -> list[Entry]:
    return store.first_records(10_000, ())


def in_index(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "index").iterdir())


def opened_again(store: SlotStore) -> SlotStore:
    """Reopen the store as after a kill, without tidying."""
    return SlotStore(store.root)


def test_record_is_written_to_its_day_and_slot(tmp_path: Path) -> None:
    store = SlotStore(tmp_path)
    file = made(due_ms=DAY_START_MS + 2 * HOUR_MS + 345, number=9)
    store.write(file.entry, file.content)
    day, hour = DAY_START_MS // DAY_MS, DAY_START_MS // HOUR_MS + 2
    content = (tmp_path / "data" / str(day)).read_bytes()
    assert content.startswith(b"mocketmq-slots-data 1 %d\n" % day)
    assert content[64:68] == b"MQSD"
    assert content[64 + data_file.PREFIX_BYTES :] == file.content
    index = (tmp_path / "index" / str(hour)).read_bytes()
    assert index.startswith(b"mocketmq-slots-index 1 %d\n" % hour)
    assert int.from_bytes(index[64 + 4 * 3 : 64 + 4 * 4], "little") == 1, "slot 3 is that of 300 to 399 ms"
    assert int.from_bytes(index[ITEMS_AT : ITEMS_AT + 8], "little") == file.entry.due_ms
    assert len(index) == index_file.end_of(1)


@pytest.mark.parametrize("seed", range(3))
def test_records_are_read_in_order_of_due_time(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    store = SlotStore(tmp_path)
    spans = [100, HOUR_MS, DAY_MS, 366 * DAY_MS]
    entries = put(store, *(DUE_MS + chance.randrange(chance.choice(spans)) for _ in range(120)))
    gone = chance.sample(entries, 40)
    store.forget(gone)
    left = sorted(set(entries) - set(gone))
    assert waiting(store) == left
    assert store.first_records(7, ()) == left[:7]
    assert store.first_records(7, set(left[:5])) == left[5:12]
    assert (
        store.by_arrival(left[0].number, 9)
        == sorted((entry for entry in left if entry.number > left[0].number), key=lambda entry: entry.number)[
            :9
        ]
    )
    assert store.with_number(left[3].number) == [left[3]]
    assert store.with_key(left[4].key_hash) == [left[4]]
    assert [store.holds(entry) for entry in (left[0], gone[0])] == [True, False]
    again = opened_again(store)
    assert (waiting(again), again.count, again.last_number) == (left, 80, 120)


def test_a_record_added_to_a_passed_slot_is_found(tmp_path: Path) -> None:
    store = SlotStore(tmp_path)
    first, second = put(store, DAY_START_MS + 50_000, DAY_START_MS + 60_000)
    store.forget([first])
    assert waiting(store) == [second]
    late, same_slot = put(store, DAY_START_MS + 10, DAY_START_MS + 50_000, first=3)
    assert waiting(store) == [late, same_slot, second]


@pytest.mark.parametrize("end", ["a failed sync", "a kill"])
def test_a_later_sync_includes_what_was_not_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    store = SlotStore(tmp_path)
    fsync, errors, synced = os.fsync, [errno.EIO] * (end == "a failed sync"), set[int]()

    def sync(fd: int) -> None:
        if errors:
            raise OSError(errors.pop(), "the disk refuses")
        fsync(fd)
        synced.add(os.fstat(fd).st_ino)

    monkeypatch.setattr(os, "fsync", sync)
    file = made(due_ms=DAY_START_MS)
    store.write(file.entry, file.content)
    if errors:
        with pytest.raises(OSError, match="the disk refuses"):
            store.sync([file.entry])
    else:
        store = opened_again(store)
    put(store, DAY_START_MS, first=2)
    folders = [tmp_path.parent, tmp_path, tmp_path / "data", tmp_path / "index"]
    paths = [*folders, *tmp_path.glob("*/*")]
    assert {path.stat().st_ino for path in paths} == synced


def test_pages_that_a_failed_sync_has_lost_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Like Linux, which takes a page for clean after it could not write it."""
    page, written = 4_096, set[tuple[int, int]]()
    pwrite = os.pwrite

    def noted(fd: int, content: bytes, offset: int) -> int:
        written.update(
            (os.fstat(fd).st_ino, number)
            for number in range(offset // page, -(-(offset + len(content)) // page))
        )
        return pwrite(fd, content, offset)

    def fail(_: Path, __: set[str]) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    store = SlotStore(tmp_path)
    first = made("K1", bytes(3 * page), due_ms=DAY_START_MS, number=1)
    store.write(first.entry, first.content)
    with monkeypatch.context() as patch, pytest.raises(OSError, match=os.strerror(errno.EIO)):
        patch.setattr(slot_store, "sync", fail)
        store.sync([first.entry])
    monkeypatch.setattr(os, "pwrite", noted)
    acknowledged = put(store, DAY_START_MS, first=2)
    [data] = (tmp_path / "data").iterdir()
    content = data.read_bytes()
    pages = (content[place : place + page] for place in range(0, len(content), page))
    inode = data.stat().st_ino
    data.write_bytes(
        b"".join(one if (inode, n) in written else bytes(len(one)) for n, one in enumerate(pages))
    )
    assert waiting(opened_again(store)) == [first.entry, *acknowledged]


def test_a_sync_waits_for_files_that_another_thread_syncs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SlotStore(tmp_path)
    put(store, DAY_START_MS)
    threads = ThreadPoolExecutor(1)
    others: list[Future[None]] = []

    def sync(_: Path, names: set[str]) -> None:
        if names:
            others.append(threads.submit(store.sync, ()))
            assert not wait(others, timeout=0.1).done

    monkeypatch.setattr(slot_store, "sync", sync)
    with threads:
        put(store, DAY_START_MS, first=2)
    others[0].result()


def test_days_are_removed_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop waits for no more than the files of one day."""
    store = SlotStore(tmp_path)
    store.forget(put(store, *(DAY_START_MS + day * DAY_MS for day in range(5))))
    removed, gone = store._files.remove_file, list[str]()

    def noted(name: str) -> None:
        gone.append(name)
        removed(name)

    class Lock(nullcontext[None]):
        def __enter__(self) -> None:
            gone.append("lock")

    monkeypatch.setattr(store._files, "remove_file", noted)
    monkeypatch.setattr(store._days, "_lock", Lock())
    store.remove_over(0, is_cleared=True)
    assert gone[1::3] == ["lock"] * 5, "an index and a data file each"
    assert [*tmp_path.glob("*/*")] == []


def test_files_are_removed_when_their_day_is_over(tmp_path: Path) -> None:
    store = SlotStore(tmp_path)
    today, later, tomorrow = put(store, DAY_START_MS, DAY_START_MS + HOUR_MS, DAY_START_MS + DAY_MS)
    end_us = (DAY_START_MS + DAY_MS) * US_PER_MS
    store.forget([today, tomorrow])
    store.remove_over(end_us)
    assert len(in_index(tmp_path)) == 3, "one of the day still waits"
    store.forget([later])
    store.remove_over(end_us - 1)
    assert len(in_index(tmp_path)) == 3, "the day is not over"
    store.remove_over(end_us)
    assert in_index(tmp_path) == [str((DAY_START_MS + DAY_MS) // HOUR_MS)]
    assert store.disk_bytes == sum(
        path.stat().st_size - (ITEMS_AT if path.parent.name == "index" else 0)
        for folder in ("data", "index")
        for path in (tmp_path / folder).iterdir()
    )
    store.remove_over(end_us, is_cleared=True)
    assert (in_index(tmp_path), store.disk_bytes) == ([], 0)


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    [entry] = put(SlotStore(tmp_path), DUE_MS)
    for name in ("data/note", "index/-5", "index/0170", "index/lost+found"):
        (tmp_path / name).write_text("somebody's")
    store = SlotStore(tmp_path)
    assert (waiting(store), store.damaged) == ([entry], {"ignored": 4})


# Damage


def cut_data(root: Path) -> None:
    path = next((root / "data").iterdir())
    os.truncate(path, path.stat().st_size - 5)


def lose_index(root: Path) -> None:
    shutil.rmtree(root / "index")


def cut_index(root: Path) -> None:
    path = sorted((root / "index").iterdir())[0]
    os.truncate(path, path.stat().st_size - 5)


def change_index(root: Path) -> None:
    for path in (root / "index").iterdir():
        content = bytearray(path.read_bytes())
        content[ITEMS_AT + 25] ^= 1
        path.write_bytes(content)


def change_mark(root: Path) -> None:
    for path in (root / "index").iterdir():
        content = bytearray(path.read_bytes())
        content[ITEMS_AT + 44] ^= 1
        path.write_bytes(content)


def lose_a_head(root: Path) -> None:
    for path in (root / "index").iterdir():
        content = path.read_bytes()
        path.write_bytes(content[:64] + bytes(4 * 36_000) + content[ITEMS_AT:])


def spoil_a_record(root: Path) -> None:
    lose_index(root)
    path = next((root / "data").iterdir())
    content = bytearray(path.read_bytes())
    content[64 + 20] ^= 1  # in the first prefix
    path.write_bytes(content)


DAMAGES: dict[str, tuple[Callable[[Path], None], slice, dict[str, int]]] = {
    "the data torn": (cut_data, slice(0, 3), {"torn": 1}),
    "the indexes lost": (lose_index, slice(0, 4), {}),
    "an index torn": (cut_index, slice(0, 4), {}),
    "an index changed": (change_index, slice(0, 4), {}),
    "a mark changed": (change_mark, slice(0, 4), {}),
    "a table empty": (lose_a_head, slice(0, 4), {}),
    "a record spoilt, and the indexes lost": (spoil_a_record, slice(1, 4), {"torn": 1}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_spares_other_records(tmp_path: Path, damage: str) -> None:
    act, left, damaged = DAMAGES[damage]
    entries = put(SlotStore(tmp_path), DUE_MS, DUE_MS + 100, DUE_MS + 3 * HOUR_MS, DUE_MS + 1)
    act(tmp_path)
    store = SlotStore(tmp_path)
    assert waiting(store) == sorted(entries[left])
    assert (dict(store.damaged), store.quarantined) == (damaged, sum(damaged.values()))
    again = opened_again(store)
    assert (waiting(again), again.damaged) == (sorted(entries[left]), {}), "repaired for good"
    [more] = put(again, DUE_MS + 5, first=9)
    assert waiting(again) == sorted([*entries[left], more])


def test_marks_survive_the_loss_of_indexes(tmp_path: Path) -> None:
    store = SlotStore(tmp_path)
    first, second = put(store, DUE_MS, DUE_MS + 1)
    store.forget([first])
    lose_index(tmp_path)
    again = SlotStore(tmp_path)
    assert (waiting(again), again.count) == ([second], 1)


def test_lost_data_is_counted_and_foreign_versions_quarantined(tmp_path: Path) -> None:
    put(SlotStore(tmp_path), DUE_MS, DUE_MS + 1, DUE_MS + DAY_MS)
    first, second = sorted((tmp_path / "data").iterdir())
    first.unlink()
    second.write_bytes(b"mocketmq-slots-data 2 ".ljust(100, b"\n"))
    store = SlotStore(tmp_path)
    assert (waiting(store), dict(store.damaged)) == ([], {"missing": 3, "version": 1})
    assert in_index(tmp_path) == []
    put_aside = tmp_path / ".bad" / second.name
    assert put_aside.read_bytes().startswith(b"mocketmq-slots-data 2")
    assert "this version" in put_aside.with_name(f"{second.name}.reason").read_text()


@pytest.mark.parametrize("refused", range(1, 4))
def test_a_full_disk_leaves_nothing_of_a_refused_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    """The write fails halfway, in the data, in the index or in the table."""
    store = SlotStore(tmp_path)
    entries = put(store, DUE_MS, DUE_MS + 1)
    real, calls = os.pwrite, 0

    def pwrite(fd: int, content: bytes, offset: int) -> int:
        nonlocal calls
        calls += 1
        if calls == refused:
            return real(fd, bytes(content)[: len(content) // 2], offset)
        if calls == refused + 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, content, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        with pytest.raises(OSError, match="No space"):
            put(store, DUE_MS + 2, first=3)
    assert waiting(store) == entries
    assert waiting(opened_again(store)) == entries
    entries += put(store, DUE_MS + 3, first=4)
    assert waiting(store) == waiting(opened_again(store)) == entries


KILLED = """
import sys
from pathlib import Path
from mocketmq_compat.delay.slots.slot_store import SlotStore
from tests.support.delayed_files import DUE_MS, made
store = SlotStore(Path(sys.argv[1]))
for number in range(1, 5):
    file = made(f"K{number}", due_ms=DUE_MS + number, number=number)
    store.write(file.entry, file.content)
store.forget(store.first_records(2, ()))
store.forget(store.first_records(2, ()))
store.remove_over(1 << 62)
"""


@pytest.mark.parametrize(
    ("point", "left"),
    [
        ("slots.recorded:1", [1]),
        ("slots.recorded:3", [1, 2, 3]),
        ("slots.marked:1", [2, 3, 4]),
        ("slots.marked:3", [4]),
        ("slots.removed:1", []),
    ],
)
def test_kill_at_any_point_leaves_consistent_files(tmp_path: Path, point: str, left: list[int]) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(command, env={**os.environ, ENVIRONMENT: point}, check=False)
    assert done.returncode == -signal.SIGKILL
    store = SlotStore(tmp_path)
    assert [entry.number for entry in waiting(store)] == left
    assert (store.count, dict(store.damaged)) == (len(left), {})
    store.forget(waiting(store))
    store.close()
    assert [*(tmp_path / "data").iterdir(), *(tmp_path / "index").iterdir()] == []


@pytest.fixture
def full_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[SlotStore, list[Entry]]:
    """A store with a full slot of 60 records, which are returned in order."""
    monkeypatch.setattr(item_places, "FULL", 8)
    monkeypatch.setattr(item_places, "RECENT", 4)
    store = SlotStore(tmp_path)
    return store, sorted(put(store, *(SLOT_START_MS + 7 * number % 100 for number in range(60))))


@pytest.fixture
def on_read(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """Calls a function after each item that is read from a slot: the last of the list."""
    calls: list[Callable[[], None]] = []
    in_slot = HourIndex.in_slot

    def called(hour: HourIndex, slot: int, head: int) -> Iterator[tuple[int, Item]]:
        for found in in_slot(hour, slot, head):
            calls[-1]()
            yield found

    monkeypatch.setattr(HourIndex, "in_slot", called)
    return calls


def test_items_of_a_full_slot_are_read_once(
    full_slot: tuple[SlotStore, list[Entry]], on_read: list[Callable[[], None]]
) -> None:
    store, left = full_slot
    reads: list[None] = []
    on_read.append(lambda: reads.append(None))
    calls = 0
    while left:
        assert store.first_records(10, ()) == left[:10]
        assert all(map(store.holds, left[:10]))
        store.forget(left[:5])
        assert store.with_number(left[0].number) == []
        left, calls = left[5:], calls + 1
    assert len(reads) <= 60 + calls
    assert waiting(store) == []


def test_a_full_slot_takes_new_records(full_slot: tuple[SlotStore, list[Entry]]) -> None:
    store, left = full_slot
    assert store.first_records(10, ()) == left[:10]
    left = sorted(left + put(store, SLOT_START_MS, SLOT_START_MS + 50, first=61))
    assert waiting(store) == left
    store.forget([left.pop(1)])
    assert waiting(store) == left
    assert waiting(opened_again(store)) == left


def test_records_that_are_settled_while_a_slot_is_read_do_not_reappear(
    full_slot: tuple[SlotStore, list[Entry]], on_read: list[Callable[[], None]]
) -> None:
    store, left = full_slot
    going = [left[0], left[40]]

    def settle() -> None:
        on_read.append(lambda: None)
        store.forget(going)

    on_read.append(settle)
    assert waiting(store) == [entry for entry in left if entry not in going]
    assert store.first_records(1, ()) == [left[1]]


def test_a_rebuilt_index_replaces_a_full_slot(full_slot: tuple[SlotStore, list[Entry]]) -> None:
    store, left = full_slot
    assert store.first_records(10, ()) == left[:10]
    [index] = (store.root / "index").iterdir()
    index.unlink()
    assert waiting(store) == left
    assert store.recounts == 1
    assert all(map(store.holds, left))
