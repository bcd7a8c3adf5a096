"""Work on one message does not grow with the number of messages that are due in the same second."""

from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.directories import directory_store
from mocketmq_compat.delay.directories.directory_store import DirectoryStore
from tests.support.delayed_files import made

FILES = [made(f"M{number}", number=number) for number in range(1, 101)]
ENTRIES = {file.entry for file in FILES}


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries each unpacking of a second made."""
    made_each, unpack = list[int](), directory_store._unpacked

    def counted(packed: "array[int]") -> Iterator[Entry]:
        entries = list(unpack(packed))
        if entries:
            made_each.append(len(entries))
        return iter(entries)

    monkeypatch.setattr(directory_store, "_unpacked", counted)
    return made_each


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DirectoryStore]:
    store = DirectoryStore(tmp_path)
    yield store
    store.close()


@pytest.mark.parametrize("step", [1, -1])
def test_saves_unpack_no_second(step: int, store: DirectoryStore, unpacked: list[int]) -> None:
    for file in FILES[::step]:
        store.write(file.entry, file.content)
    assert unpacked == []
    assert (store.count, set(store.all())) == (len(FILES), ENTRIES)


def test_look_ups_unpack_a_second_once(store: DirectoryStore, unpacked: list[int]) -> None:
    for file in FILES[:-1]:
        store.write(file.entry, file.content)
    assert [store.holds(file.entry) for file in FILES] == [True] * (len(FILES) - 1) + [False]
    assert unpacked == [len(FILES) - 1]
    store.write(FILES[-1].entry, FILES[-1].content)
    assert store.holds(FILES[-1].entry)
    assert set(store.all()) == ENTRIES


def test_file_written_twice_is_one_entry(store: DirectoryStore) -> None:
    for file in (FILES[0], FILES[1], FILES[0]):
        store.write(file.entry, file.content)
    assert (store.count, [*store.all()]) == (2, [FILES[0].entry, FILES[1].entry])


def test_search_for_foreign_files_unpacks_a_directory_once(
    store: DirectoryStore, unpacked: list[int], tmp_path: Path
) -> None:
    for file in FILES[:-2]:
        store.write(file.entry, file.content)
    other = DirectoryStore(tmp_path)
    for file in FILES[-2:]:
        other.write(file.entry, file.content)
    other.close()
    unpacked.clear()
    assert set(store.adopt(0)) == {file.entry for file in FILES[-2:]}
    assert unpacked == [len(FILES) - 2]
    assert set(store.all()) == ENTRIES
