"""A store that was closed knows its files at the next start, and reads only those that changed meanwhile."""

import os
import stat
from array import array
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mocketmq.settings import TimedSchemeName
from mocketmq_compat.delay import known_parts
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.directories.delay_directory import DelayDirectory
from mocketmq_compat.delay.directories.directory_store import DirectoryStore
from mocketmq_compat.delay.known_parts import (
    KNOWN,
    NOTHING,
    KnownPart,
    Stamp,
    load_known,
    save_known,
    stamp_of,
)
from mocketmq_compat.delay.schemes import SCHEMES
from mocketmq_compat.delay.slots.hour_index import HourIndex
from mocketmq_compat.delay.store import DelayStore
from mocketmq_compat.delay.wheel.wheel_store import WheelStore
from tests.support.delayed_files import Made, made
from tests.unit.compat.directories import await_next_time

KINDS: Sequence[TimedSchemeName] = ("directories", "wheel", "slots")
HOUR_MS = 3_600_000
FIRST_MS = 1_900_000_800_000
FILES = [made(f"M{number}", number=number, due_ms=FIRST_MS + number * HOUR_MS) for number in range(1, 6)]
"""Messages that are each in a part of its own: a second, ten minutes, an hour."""
LATER = made("M6", number=6, due_ms=FIRST_MS + 2 * HOUR_MS)
READS: Sequence[tuple[type[Any], str]] = (
    (DelayDirectory, "scan_second"),
    (WheelStore, "_mend"),
    (HourIndex, "check"),
)
"""What reads a part of each kind of store when it is opened."""


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all parts that were read."""
    names: list[str] = []

    def counted(read: Callable[..., Any]) -> Callable[..., Any]:
        def count(part: Any, *arguments: Any, **options: Any) -> Any:
            names.append(str(arguments[0] if arguments else part.number))
            return read(part, *arguments, **options)

        return count

    for kind, name in READS:
        monkeypatch.setattr(kind, name, counted(getattr(kind, name)))
    return names


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take all files for old ones."""
    monkeypatch.setattr(known_parts, "SETTLING_NS", -3_600_000_000_000)


def fill(scheme: TimedSchemeName, root: Path, files: Sequence[Made]) -> None:
    with closing(SCHEMES[scheme].open_store(root)) as store:
        for file in files:
            store.write(file.entry, file.content)


def seen(store: DelayStore) -> tuple[int, int, int, int, set[Entry]]:
    return store.count, store.parts, store.disk_bytes, store.last_number, {*store.all()}


def read_anew(scheme: TimedSchemeName, root: Path) -> tuple[int, int, int, int, set[Entry]]:
    """Return what a store finds that knows nothing."""
    (root / KNOWN).unlink()
    with closing(SCHEMES[scheme].open_store(root)) as store:
        return seen(store)


def remember(root: Path) -> None:
    """Start and stop a store of directories, which then knows those in the folder."""
    with closing(DirectoryStore(root)) as store:
        store.adopt(0)


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("scheme", KINDS)
def test_a_start_reads_no_part_that_is_as_it_was(
    scheme: TimedSchemeName, tmp_path: Path, reads: list[str]
) -> None:
    fill(scheme, tmp_path, FILES)
    if scheme == "directories":
        remember(tmp_path)
    reads.clear()
    for _ in range(2):
        with closing(SCHEMES[scheme].open_store(tmp_path)) as store:
            found = seen(store)
            assert reads == []
            assert [store.read(file.entry) for file in FILES] == [file.content for file in FILES]
    assert found == read_anew(scheme, tmp_path)
    assert found[0] == len(FILES)


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("scheme", KINDS)
def test_a_start_after_a_kill_reads_what_changed(
    scheme: TimedSchemeName, tmp_path: Path, reads: list[str]
) -> None:
    fill(scheme, tmp_path, FILES)
    if scheme == "directories":
        remember(tmp_path)
    await_next_time(tmp_path)
    killed = SCHEMES[scheme].open_store(tmp_path)
    killed.write(LATER.entry, LATER.content)
    killed.forget([FILES[3].entry])
    known = (tmp_path / KNOWN).read_bytes()
    killed.close()
    (tmp_path / KNOWN).write_bytes(known)  # of the run before, as after a kill
    reads.clear()
    with closing(SCHEMES[scheme].open_store(tmp_path)) as store:
        found = seen(store)
    assert len(reads) == (1 if scheme != "slots" else 2)
    assert found == read_anew(scheme, tmp_path)
    assert found[4] == {file.entry for file in (*FILES, LATER)} - {FILES[3].entry}


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("scheme", KINDS)
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: content.replace(b"known 3", b"known 2"),
        lambda content: content.replace(b"little", b"middle"),
        lambda _: b"",
        lambda _: b"mocketmq-known 3 wheel little 2 99999999999999 0 0\n",
    ],
)
def test_a_file_that_is_not_as_it_was_written_is_ignored(
    scheme: TimedSchemeName, damage: Callable[[bytes], bytes], tmp_path: Path, reads: list[str]
) -> None:
    fill(scheme, tmp_path, FILES)
    if scheme == "directories":
        remember(tmp_path)
    known = tmp_path / KNOWN
    known.write_bytes(damage(known.read_bytes()))
    reads.clear()
    with closing(SCHEMES[scheme].open_store(tmp_path)) as store:
        assert (len(reads), store.count, store.damaged) == (len(FILES), len(FILES), {})


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("scheme", KINDS)
def test_copied_files_are_read(scheme: TimedSchemeName, tmp_path: Path, reads: list[str]) -> None:
    fill(scheme, tmp_path / "one", FILES)
    if scheme == "directories":
        remember(tmp_path / "one")
    (tmp_path / "one").rename(tmp_path / "other")
    fill(scheme, tmp_path / "one", FILES[:2])
    (tmp_path / "one" / KNOWN).write_bytes((tmp_path / "other" / KNOWN).read_bytes())
    reads.clear()
    with closing(SCHEMES[scheme].open_store(tmp_path / "one")) as store:
        assert (len(reads), store.count) == (2, 2)


@pytest.mark.parametrize("scheme", KINDS)
def test_a_part_that_changed_just_before_the_stop_is_read(
    scheme: TimedSchemeName, tmp_path: Path, reads: list[str]
) -> None:
    """A file system may give the next change the same time."""
    fill(scheme, tmp_path, FILES)
    reads.clear()
    with closing(SCHEMES[scheme].open_store(tmp_path)):
        assert len(reads) == len(FILES)


def test_a_stamp_is_trusted_if_it_is_older_than_the_coarsest_times(tmp_path: Path) -> None:
    now_ns = DelayDirectory(tmp_path).now_ns()
    stamps = [Stamp(now_ns + seconds * 1_000_000_000, 2, 3) for seconds in (-3_600, -1, 0, 3_600)]
    save_known(tmp_path, "a", 0, ((number, KnownPart(stamp, ())) for number, stamp in enumerate(stamps)))
    known = load_known(tmp_path, "a", 0)
    assert [number for number, stamp in enumerate(stamps) if known.get(number, stamp)] == [0]
    assert known.get(0, stamps[0]._replace(inode=4)) is None
    assert known.get(9, stamps[0]) is None


def test_a_stamp_has_room_for_every_inode(tmp_path: Path) -> None:
    numbers = [*tmp_path.stat()]
    numbers[stat.ST_INO] = (1 << 64) - 1
    part = KnownPart(stamp_of(os.stat_result(numbers, {"st_ctime_ns": 1})), ())
    save_known(tmp_path, "a", 0, [(1, part)])
    assert load_known(tmp_path, "a", 0).get(1, part.stamp) == part


@pytest.mark.parametrize("scheme", KINDS)
def test_inspection_takes_the_file_for_no_stray(scheme: TimedSchemeName, tmp_path: Path) -> None:
    fill(scheme, tmp_path, FILES)
    inspection = SCHEMES[scheme].inspect(tmp_path, lambda *_: None).verify()
    assert (inspection.messages, inspection.problems) == (len(FILES), [])


@pytest.mark.parametrize("scheme", KINDS)
def test_a_full_disk_costs_the_next_start_only_time(
    scheme: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(Path, "replace", refuse)
        fill(scheme, tmp_path, FILES)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(KNOWN)] == []
    with closing(SCHEMES[scheme].open_store(tmp_path)) as store:
        assert store.count == len(FILES)


def test_parts_and_items_are_read_as_they_were_written(tmp_path: Path) -> None:
    part, other = KnownPart(Stamp(1, 2, 3), (4, -5)), KnownPart(Stamp(4, 5, 6), (7, 8))
    save_known(tmp_path, "a", 2, [(8, other), (7, part)], [array("q", (1, 2)), array("q", (3,))])
    known = load_known(tmp_path, "a", 2)
    assert ([*known], [*known.items]) == ([part, other], [1, 2, 3])
    assert [known.get(number, part.stamp) for number in (6, 7, 8, 9)] == [None, part, None, None]
    assert [known.place_of(number) for number in (7, 8)] == [0, 1]
    assert load_known(tmp_path, "b", 2) is load_known(tmp_path, "a", 1) is NOTHING
