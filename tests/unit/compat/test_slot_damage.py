"""Nothing is lost if somebody changes an index of the scheme ``slots`` while the store is open."""

import errno
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.slots import data_file, index_file
from mocketmq_compat.delay.slots.index_file import HOUR_MS, ITEM_BYTES, ITEMS_AT
from mocketmq_compat.delay.slots.slot_store import SlotStore
from tests.support.delayed_files import DUE_MS, made
from tests.unit.compat.test_slot_store import opened_again, put, waiting

DUES = (0, 10, 100, 3, 20, HOUR_MS)
"""Due times: three in one slot, another in it after two others, and one in another hour."""
LAST_OF_THE_HOUR = 5


def store_in(root: Path) -> tuple[SlotStore, list[Entry]]:
    """Return a store that does not remember the places of records, and its entries in order."""
    store = SlotStore(root)
    entries = put(store, *(DUE_MS // 100 * 100 + due for due in DUES))
    store._days.places.clear()
    return store, sorted(entries)


def index_in(root: Path) -> Path:
    """Return the index of the first hour."""
    return min((root / "index").iterdir())


def overwrite(path: Path, offset: int, content: bytes) -> None:
    """Overwrite the file in place, which no broker does."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def item_at(number: int, field: int = 0) -> int:
    return index_file.end_of(number - 1) + field


def empty_table(path: Path) -> None:
    overwrite(path, 64, bytes(4 * 36_000))


def older_heads(path: Path) -> None:
    content = path.read_bytes()
    slot = index_file.slot_of(DUE_MS // 100 * 100)
    assert content[64 + 4 * slot] == LAST_OF_THE_HOUR
    overwrite(path, 64 + 4 * slot, b"\2")


def head_beyond_the_items(path: Path) -> None:
    slot = index_file.slot_of(DUE_MS // 100 * 100)
    overwrite(path, 64 + 4 * slot, b"\x63")


def items_that_lead_in_a_circle(path: Path) -> None:
    overwrite(path, item_at(2, 36), b"\2")


def zeros(path: Path) -> None:
    overwrite(path, 0, bytes(path.stat().st_size))


def cut(path: Path) -> None:
    os.truncate(path, item_at(4))


def cut_within_an_item(path: Path) -> None:
    os.truncate(path, item_at(4, 7))


def grown(path: Path) -> None:
    os.truncate(path, item_at(9))


def removed(path: Path) -> None:
    path.unlink()


def replaced(path: Path) -> None:
    """Replace the file with an older copy, as ``mv`` and most editors do."""
    copy = path.with_name("older")
    shutil.copy(path, copy)
    os.truncate(copy, item_at(3))
    copy.rename(path)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "an item": lambda path: overwrite(path, item_at(3, 17), b"?"),
    "a mark": lambda path: overwrite(path, item_at(3, 44), b"\1"),
    **{
        each.__name__.replace("_", " "): each
        for each in (
            *(empty_table, older_heads, head_beyond_the_items, items_that_lead_in_a_circle, zeros),
            *(cut, cut_within_an_item, grown, removed, replaced),
        )
    },
}


def test_a_second_piece_of_damage_at_the_same_place_is_kept_too(tmp_path: Path) -> None:
    for number in (1, 2):
        store = SlotStore(tmp_path)
        put(store, DUE_MS, first=number)
        [data] = (tmp_path / "data").iterdir()
        overwrite(data, 64, b"????")
        shutil.rmtree(tmp_path / "index")
    assert SlotStore(tmp_path).quarantined == 2
    pieces = [path for path in (tmp_path / ".bad").iterdir() if path.suffix != ".reason"]
    assert len({path.read_bytes() for path in pieces}) == 2


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("first", ["first", "read", "forget", "write", "all"])
def test_damage_loses_no_other_message(tmp_path: Path, damage: str, first: str) -> None:
    store, entries = store_in(tmp_path)
    DAMAGES[damage](index_in(tmp_path))
    if first == "read":
        for entry in entries:
            assert store.read(entry).endswith(b"hello")
    elif first == "forget":
        store.forget([entries.pop(3)])
    elif first == "write":
        entries = sorted([*entries, *put(store, DUE_MS + 7, first=9)])
    elif first == "all":
        assert {*store.all()} == {*entries}
    assert waiting(store) == entries
    assert (store.count, store.recounts, dict(store.damaged)) == (len(entries), 1, {"index": 1})
    assert [store.holds(entry) for entry in entries] == [True] * len(entries)
    again = opened_again(store)
    assert (waiting(again), again.count, dict(again.damaged)) == (entries, len(entries), {}), "mended"
    store.forget(entries)
    assert (waiting(store), store.count) == ([], 0)


@pytest.mark.parametrize("seed", range(20))
def test_changed_bytes_lose_no_other_message(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    store, entries = store_in(tmp_path)
    path = index_in(tmp_path)
    for _ in range(chance.randrange(1, 4)):
        begin = chance.choice((0, 64, ITEMS_AT, ITEMS_AT))
        place = chance.randrange(begin, path.stat().st_size)
        overwrite(path, place, bytes(chance.randrange(256) for _ in range(chance.choice((1, 4, 48)))))
        os.truncate(path, item_at(LAST_OF_THE_HOUR + 1))
        gone = entries.pop(chance.randrange(len(entries)))
        store.forget([gone])
        assert not store.holds(gone)
        assert all(store.read(entry) for entry in chance.sample(entries, len(entries)))
        assert (waiting(store), store.count) == (entries, len(entries))
    store.close()
    again = SlotStore(tmp_path)
    assert (waiting(again), again.count) == (entries, len(entries))


def test_older_index_copy_repeats_and_loses_no_message(tmp_path: Path) -> None:
    """The copy's length and items are valid, but its counts would end the day too soon."""
    store, entries = store_in(tmp_path)
    path = index_in(tmp_path)
    older = path.read_bytes()
    store.forget(entries[:3])
    overwrite(path, 0, older)
    store._days.places.clear()
    store.forget(waiting(store)[:2])  # the scheme knows that they are settled, and refuses them
    assert (waiting(store), store.count, dict(store.damaged)) == (entries[3:], len(entries) - 3, {"index": 1})
    store.close()
    assert waiting(SlotStore(tmp_path)) == entries[3:]


def test_index_of_other_data_is_detected_by_its_records(tmp_path: Path) -> None:
    store, entries = store_in(tmp_path / "one")
    other = SlotStore(tmp_path / "other")
    for entry in sorted(entries, key=lambda entry: -entry.number):  # the same entries, at other places
        file = made(f"K{entry.number}", due_ms=entry.due_ms, number=entry.number)
        assert file.entry == entry
        other.write(entry, file.content)
    for source in (tmp_path / "other" / "index").iterdir():
        overwrite(tmp_path / "one" / "index" / source.name, 0, source.read_bytes())
    store.forget(entries[:2])
    assert dict(store.damaged) == {"index": 1}
    assert waiting(store) == entries[2:]
    assert all(f'"K{entry.number}"'.encode() in store.read(entry) for entry in entries[2:])
    data = next((tmp_path / "one" / "data").iterdir()).read_bytes()
    assert (data.count(data_file.MAGIC), data.count(b"DONE")) == (len(DUES), 2)


def test_record_without_head_and_body_is_quarantined_once(tmp_path: Path) -> None:
    store, entries = store_in(tmp_path)
    [path] = (tmp_path / "data").iterdir()
    first = path.read_bytes().index(b"K1")
    overwrite(path, 64 + 10, b"?" * (first - 64 - 9))
    with pytest.raises(FileNotFoundError):
        store.read(entries[0])
    assert (waiting(store), store.quarantined) == (entries[1:], 1)
    assert dict(store.damaged) == {"index": 1, "torn": 1}


def test_unrepairable_files_stay_and_are_repaired_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, entries = store_in(tmp_path)
    removed(index_in(tmp_path))

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                waiting(store)
        store.remove_over(1 << 62, is_cleared=True)
        assert dict(store.damaged) == {"index": 1}, "told once"
    assert len([*(tmp_path / "data").iterdir()]) == 1
    assert (waiting(store), store.count) == (entries, len(entries))
    assert store.disk_bytes == sum(
        path.stat().st_size - (ITEMS_AT if path.parent.name == "index" else 0)
        for folder in ("data", "index")
        for path in (tmp_path / folder).iterdir()
    )
    assert ITEM_BYTES * len(DUES) < store.disk_bytes
