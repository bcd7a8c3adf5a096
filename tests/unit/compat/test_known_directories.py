"""The scheme ``directories`` trusts what it knew, but never at the price of another program's change."""

import errno
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mocketmq_compat.delay import known_parts
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.directories import delay_directory
from mocketmq_compat.delay.directories.delay_directory import TEMPORARY, DelayDirectory, FoundDirectory
from mocketmq_compat.delay.directories.directory_store import DirectoryStore
from mocketmq_compat.delay.known_parts import KNOWN, Stamp
from tests.support.delayed_files import Made, made
from tests.unit.compat.directories import await_next_time

FIRST_MS = 1_900_000_800_000
FILES = [made(f"M{number}", number=number, due_ms=FIRST_MS + number * 1_000) for number in range(1, 4)]
"""Messages that are each in a second of its own."""
BESIDE = made("M6", number=6, due_ms=FILES[0].entry.due_ms + 1)
"""A message in the first one's second."""
DAY_NS = 86_400 * 10**9


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take all directories for old ones."""
    monkeypatch.setattr(known_parts, "SETTLING_NS", -3_600_000_000_000)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder whose files the last run knew."""
    with closing(DirectoryStore(tmp_path)) as store:
        for file in FILES:
            store.write(file.entry, file.content)
        store.adopt(0)
    assert read_at_a_start(tmp_path) == set(), "the last run knew all"
    await_next_time(tmp_path)
    return tmp_path


def read_at_a_start(root: Path) -> set[int]:
    """Return the seconds that a start would read."""
    read: set[int] = set()
    with pytest.MonkeyPatch.context() as patches:
        real = DelayDirectory.scan_second

        def scan_second(
            directory: DelayDirectory, second: int, changed_ns: int, *, is_starting: bool
        ) -> FoundDirectory:
            read.add(second)
            return real(directory, second, changed_ns, is_starting=is_starting)

        patches.setattr(DelayDirectory, "scan_second", scan_second)
        with closing(DirectoryStore(root)):
            return {*read}


def found_after_starts(root: Path) -> Iterator[set[Entry]]:
    """Yield what each of two starts finds, and a third that knows nothing."""
    for _ in range(2):
        with closing(DirectoryStore(root)) as store:
            store.adopt(0)
            yield {*store.all()}
    (root / KNOWN).unlink(missing_ok=True)
    with closing(DirectoryStore(root)) as store:
        store.adopt(0)
        yield {*store.all()}


def entries(*files: Made) -> set[Entry]:
    return {file.entry for file in files}


@pytest.mark.parametrize("is_foreign_name", [False, True])
def test_a_file_of_another_program_is_adopted_though_a_start_failed(
    root: Path, is_foreign_name: bool
) -> None:
    BESIDE.put(root, f"{BESIDE.entry.second}/copied.msg" if is_foreign_name else None)
    await_next_time(root)
    later = made("M7", number=7, due_ms=FILES[1].entry.due_ms + 1)
    later.put(root)
    DirectoryStore(root).close()  # before anything looked for foreign files
    assert [*found_after_starts(root)] == [entries(*FILES, BESIDE, later)] * 3


def test_a_file_is_adopted_after_an_error_that_may_pass(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    strange = made("M7", number=7, due_ms=FILES[1].entry.due_ms + 1)
    strange.put(root, f"{strange.entry.second}/copied{TEMPORARY}")  # a start takes it for complete
    with closing(DirectoryStore(root)) as store:
        BESIDE.put(root)
        with monkeypatch.context() as patches:
            patches.setattr(store.directory, "read_stray", fail)
            with pytest.raises(OSError, match="open files"):
                store.adopt(0)
    with closing(DirectoryStore(root)) as store:
        with monkeypatch.context() as patches:
            patches.setattr(store.directory, "read_stray", fail)
            with pytest.raises(OSError, match="open files"):
                store.adopt(0)
        store.adopt(0)
        assert store.adopted == {strange.entry}
    assert [*found_after_starts(root)] == [entries(*FILES, BESIDE, strange)] * 3


def test_a_file_that_comes_while_its_directory_is_looked_at_is_adopted(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory has had its stamp taken, and another one gets a later stamp in the same scan."""
    real = known_parts.stamp_of
    first, *others = [int(path.name) for path in root.iterdir() if path.name.isdigit()]
    foreign = made("M8", number=8, due_ms=first * 1_000 + 900)
    own = made("M9", number=9, due_ms=others[0] * 1_000 + 900)
    inode = (root / str(first)).stat().st_ino
    waiting = [foreign]
    with closing(DirectoryStore(root)) as store:
        store.adopt(0)

        def stamp(found: os.stat_result) -> Stamp:
            result = real(found)
            if found.st_ino == inode and waiting:
                waiting.pop().put(root)
                store.write(own.entry, own.content)
            return result

        with monkeypatch.context() as patches:
            patches.setattr(delay_directory, "stamp_of", stamp)
            store.adopt(0)
        assert waiting == []
        store.adopt(0)
        assert store.adopted == {foreign.entry}
    assert [*found_after_starts(root)] == [entries(*FILES, foreign, own)] * 3


def test_a_file_that_comes_after_the_clock_was_set_back_is_adopted(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = known_parts.stamp_of
    before = {path.stat().st_ctime_ns for path in root.iterdir()}

    def stamp(found: os.stat_result) -> Stamp:
        result = real(found)
        return result._replace(changed_ns=result.changed_ns + DAY_NS * (result.changed_ns in before))

    monkeypatch.setattr(delay_directory, "stamp_of", stamp)
    with closing(DirectoryStore(root)) as store:
        store.adopt(0)
        BESIDE.put(root)
        store.adopt(0)
        assert store.adopted == {BESIDE.entry}
    assert [*found_after_starts(root)] == [entries(*FILES, BESIDE)] * 3


@pytest.mark.parametrize("is_looked_at", [False, True])
def test_a_file_that_was_taken_out_is_not_pending_after_a_start(root: Path, is_looked_at: bool) -> None:
    with closing(DirectoryStore(root)) as store:
        store.write(BESIDE.entry, BESIDE.content)
        store.adopt(0)
        await_next_time(root)
        (root / BESIDE.place).unlink()
        if is_looked_at:
            store.adopt(0)
            store.adopt(0)
    assert [*found_after_starts(root)] == [entries(*FILES)] * 3


def test_a_damaged_file_that_cannot_be_put_aside_is_found_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    with closing(DirectoryStore(root)) as store:
        monkeypatch.setattr(store.directory, "quarantine", fail)
        store.put_aside(FILES[0].entry, "damaged", "for a test")
        assert store.count == len(FILES) - 1
    assert [*found_after_starts(root)] == [entries(*FILES)] * 3


def test_a_leftover_of_a_kill_is_removed_by_the_next_start(root: Path) -> None:
    leftover = root / f"{BESIDE.place}{TEMPORARY}"
    with closing(DirectoryStore(root)) as store:
        leftover.write_bytes(b"x")
        store.adopt(0)
    DirectoryStore(root).close()
    assert not leftover.exists()


def test_only_what_changed_after_the_last_look_is_read(root: Path) -> None:
    with closing(DirectoryStore(root)) as store:
        store.write(BESIDE.entry, BESIDE.content)
    assert read_at_a_start(root) == {BESIDE.entry.second}
    assert read_at_a_start(root) == set()


def test_disk_space_is_not_negative_after_a_file_grew_while_the_broker_was_stopped(root: Path) -> None:
    grown = made("M1", b"x" * 1_000_000, number=1, due_ms=FILES[0].entry.due_ms)
    grown.put(root)
    with closing(DirectoryStore(root)) as store:
        counted = store.disk_bytes
        assert store.forget([grown.entry]) == []
        assert store.disk_bytes == counted - 4_096
        assert store.forget([file.entry for file in FILES[1:]]) == []
        assert store.disk_bytes == 0


def test_disk_space_is_right_after_a_removal_is_repeated(root: Path) -> None:
    with closing(DirectoryStore(root)) as store:
        counted = store.disk_bytes
        for _ in range(3):
            assert store.forget([FILES[0].entry]) == []
            assert store.disk_bytes == counted - 4_096


def test_a_directory_with_a_very_large_number_is_read(root: Path) -> None:
    (root / f"{1 << 70}").mkdir()
    with closing(DirectoryStore(root)) as store:
        assert store.count == len(FILES)


def test_a_directory_is_remembered_only_some_time_after_its_last_change(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then, its next change may have the same time."""
    with closing(DirectoryStore(root)) as store:
        store.adopt(0)
        monkeypatch.setattr(known_parts, "SETTLING_NS", 3_600 * 10**9)
        store.write(BESIDE.entry, BESIDE.content)
        store.adopt(0)
        monkeypatch.setattr(known_parts, "SETTLING_NS", -3_600 * 10**9)
    assert read_at_a_start(root) == {BESIDE.entry.second}
