"""The delay directory: files appear completely or not at all, and no stray file can block it."""

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mocketmq.failpoint import ENVIRONMENT
from mocketmq_compat.delay.delayed_file import decode
from mocketmq_compat.delay.directories import delay_directory
from mocketmq_compat.delay.directories.delay_directory import DelayDirectory, disk_bytes
from tests.support.delayed_files import DUE_MS, Made, made
from tests.support.patience import HANGING_S
from tests.support.process import clean_environment
from tests.unit.compat.directories import BLOCK, SECOND, files_below, names_in, scanned


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Make threads switch as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


# Files come and go


def test_file_is_readable_until_its_removal(
    directory: DelayDirectory,
) -> None:
    one, other = made("A", b"x" * BLOCK), made("B", b"")
    for file in (one, other):
        directory.write(file.entry, file.content)
    directory.sync([one.entry, other.entry])
    assert [directory.read(file.entry) for file in (one, other)] == [one.content, other.content]
    assert [directory.remove_file(file.entry) for file in (one, other, other)] == [2 * BLOCK, BLOCK, 0]
    for file in (one, other):
        with pytest.raises(FileNotFoundError):
            directory.read(file.entry)
    directory.remove_second(SECOND)


def test_rewritten_file_has_the_new_content(directory: DelayDirectory) -> None:
    file = made()
    for content in (b"much longer than the other", file.content):
        directory.write(file.entry, content)
    assert directory.read(file.entry) == file.content


def test_directory_follows_from_the_file_name(directory: DelayDirectory) -> None:
    files = [made("A"), made("B", due_ms=DUE_MS + 1_000), made("C", number=8)]
    for file in files:
        directory.write(file.entry, file.content)
    assert files_below(directory.root) == {file.place for file in files}
    assert decode((directory.root / files[0].place).read_bytes()).header == files[0].header


def test_only_an_empty_second_is_removed(directory: DelayDirectory) -> None:
    file = made()
    directory.write(file.entry, file.content)
    (directory.root / "7").write_text("no directory")
    for second in (SECOND, SECOND + 1, 7):
        directory.remove_second(second)
    assert files_below(directory.root) == {file.place, "7"}
    directory.remove_file(file.entry)
    directory.remove_second(SECOND)
    assert names_in(directory.root) == ["7"]


def test_a_second_that_cannot_be_removed_is_an_error(
    directory: DelayDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> None:
        raise OSError(errno.EROFS, "read-only")

    monkeypatch.setattr(os, "rmdir", refuse)
    with pytest.raises(OSError, match="read-only"):
        directory.remove_second(SECOND)


def test_a_missing_root_is_an_error_and_is_not_recreated(directory: DelayDirectory) -> None:
    directory.root.rmdir()
    with pytest.raises(FileNotFoundError):
        directory.write(made().entry, made().content)
    assert not directory.root.exists()


@pytest.mark.parametrize(("size", "on_disk"), [(0, 0), (1, BLOCK), (BLOCK, BLOCK), (BLOCK + 1, 2 * BLOCK)])
def test_disk_use_is_counted_in_blocks(size: int, on_disk: int) -> None:
    assert disk_bytes(size) == on_disk


# A file appears completely or not at all


@pytest.mark.usefixtures("quick_switches")
def test_file_appears_whole(directory: DelayDirectory) -> None:
    files = [made(str(number), b"x" * 100_000, number=number) for number in range(100)]
    seen, written = threading.Event(), threading.Event()

    def look() -> None:
        while not written.is_set():
            for found in scanned(directory, is_starting=False)[0]:
                for entry in found.entries:
                    assert len(decode(directory.read(entry)).body) == 100_000
                    seen.set()

    with ThreadPoolExecutor(1) as thread:
        looking = thread.submit(look)
        try:
            for file in files:
                directory.write(file.entry, file.content)
                assert looking.done() or seen.wait(HANGING_S)  # then looks overlap the writes
        finally:
            written.set()
        looking.result(timeout=HANGING_S)


KILLED = """
import sys
from pathlib import Path
from mocketmq_compat.delay.directories.delay_directory import DelayDirectory
from tests.support.delayed_files import made
made("finished").put(Path(sys.argv[1]))
DelayDirectory(Path(sys.argv[1])).write(made("torn").entry, made("torn").content)
"""


def test_first_scan_removes_leftovers_of_a_kill(directory: DelayDirectory) -> None:
    environment = clean_environment() | {ENVIRONMENT: "files.writing"}
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(directory.root)], check=False, env=environment, timeout=HANGING_S
    )
    assert ended.returncode == -9
    finished, torn = made("finished"), made("torn")
    assert files_below(directory.root) == {finished.place, f"{torn.place}.tmp"}
    ((found,), others) = scanned(directory, is_starting=False)
    assert (found.entries, found.strays, others) == ([finished.entry], [], [])
    assert files_below(directory.root) == {finished.place, f"{torn.place}.tmp"}, "a writer may be at it"
    ((found,), others) = scanned(directory)
    assert (found.entries, found.strays, others) == ([finished.entry], [], [])
    assert files_below(directory.root) == {finished.place}


def test_short_writes_are_continued(directory: DelayDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    write, sizes = os.write, []

    def write_half(fd: int, content: bytes) -> int:
        sizes.append(len(content))
        return write(fd, content[: (len(content) + 1) // 2])

    file = made(body=bytes(range(256)) * 40)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_half)
        directory.write(file.entry, file.content)
    assert directory.read(file.entry) == file.content
    assert len(sizes) > 10


@pytest.mark.parametrize("call", ["write", "replace"])
@pytest.mark.parametrize("neighbour", [None, made("neighbour")])
def test_a_full_disk_leaves_nothing_behind(
    directory: DelayDirectory, monkeypatch: pytest.MonkeyPatch, call: str, neighbour: Made | None
) -> None:
    if neighbour is not None:
        directory.write(neighbour.entry, neighbour.content)
    write, file = os.write, made()

    def fill(fd: int, content: bytes) -> int:
        if len(content) < len(file.content):
            raise OSError(errno.ENOSPC, "full")
        return write(fd, content[:100])

    def refuse(*_: str) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fill if call == "write" else refuse)
        with pytest.raises(OSError, match="full"):
            directory.write(file.entry, file.content)
    assert files_below(directory.root) == ({neighbour.place} if neighbour else set())
    assert names_in(directory.root) == ([str(SECOND)] if neighbour else [])
    directory.write(file.entry, file.content)
    assert directory.read(file.entry) == file.content


# A removal never races a save (W7)


@pytest.mark.usefixtures("quick_switches")
def test_a_seconds_directory_can_be_removed_while_files_are_written_to_it(
    directory: DelayDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir
    made_anew: list[str] = []

    def count(path: str) -> None:
        made_anew.append(path)
        mkdir(path)

    monkeypatch.setattr(os, "mkdir", count)
    together = threading.Barrier(4, timeout=HANGING_S)
    rounds = 200

    def write_and_take(writer: int) -> None:
        for number in range(rounds):
            together.wait()
            file = made(f"{writer}-{number}")
            directory.write(file.entry, file.content)
            directory.remove_second(SECOND)
            assert directory.read(file.entry) == file.content
            assert directory.remove_file(file.entry) == BLOCK
            directory.remove_second(SECOND)

    with ThreadPoolExecutor(together.parties) as threads:
        for writing in [threads.submit(write_and_take, writer) for writer in range(together.parties)]:
            writing.result(timeout=HANGING_S)
    assert names_in(directory.root) == []
    assert len(made_anew) >= rounds, "it was there only once, so nothing was tried"


@pytest.mark.usefixtures("quick_switches")
def test_a_file_can_be_moved_to_a_second_that_is_removed_under_it(directory: DelayDirectory) -> None:
    moved = threading.Event()

    def keep_removing() -> None:
        while not moved.is_set():
            directory.remove_second(SECOND)

    with ThreadPoolExecutor(1) as thread:
        removing = thread.submit(keep_removing)
        try:
            for number in range(200):
                file = made(str(number))
                file.put(directory.root, "7/by-hand")
                directory.move(7, "by-hand", file.entry)
                assert directory.read(file.entry) == file.content
                directory.remove_file(file.entry)
        finally:
            moved.set()
        removing.result(timeout=HANGING_S)


def test_directory_removed_during_a_write_is_recreated(
    directory: DelayDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir
    made_anew: list[str] = []

    def make_in_vain(path: str) -> None:
        mkdir(path)
        made_anew.append(path)
        if len(made_anew) < 5:
            Path(path).rmdir()

    monkeypatch.setattr(os, "mkdir", make_in_vain)
    file = made()
    directory.write(file.entry, file.content)
    assert directory.read(file.entry) == file.content
    assert len(made_anew) == 5


def test_write_gives_up_after_many_lost_races(
    directory: DelayDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []
    monkeypatch.setattr(os, "mkdir", tries.append)
    with pytest.raises(FileNotFoundError):
        directory.write(made().entry, b"")
    assert 10 < len(tries) < 1_000


# Durability


def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the inodes that are synced from now on, in order."""
    fsync, inodes = os.fsync, []

    def record(fd: int) -> None:
        inodes.append(os.fstat(fd).st_ino)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", record)
    return inodes


def test_files_and_directories_are_synced_without_syncfs(
    directory: DelayDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delay_directory, "system_sync", lambda: None)
    files = [made("A"), made("B"), made("C", due_ms=DUE_MS + 1_000)]
    for file in files:
        directory.write(file.entry, file.content)
    gone = made("delivered meanwhile").entry
    inodes = synced(monkeypatch)
    directory.sync([*(file.entry for file in files), gone])
    root = directory.root
    paths = [*(root / file.place for file in files), root / str(SECOND), root / str(SECOND + 1), root]
    assert {path.stat().st_ino for path in [*paths, root.parent]} == set(inodes)
    assert len(inodes) == len(paths) + 1
    assert inodes[-2:] == [root.stat().st_ino, root.parent.stat().st_ino], "from the inside out"


def test_one_syncfs_call_syncs_all_files(directory: DelayDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    syncfs = delay_directory.system_sync()
    if syncfs is None:
        pytest.skip("the system has no syncfs")
    called: list[int] = []

    def count(fd: int) -> int:
        called.append(fd)
        return syncfs(fd)

    monkeypatch.setattr(delay_directory, "system_sync", lambda: count)
    file = made()
    directory.write(file.entry, file.content)
    inodes = synced(monkeypatch)
    directory.sync([file.entry])
    assert [os.fstat(fd).st_ino for fd in called] == [directory.root.stat().st_ino]
    assert inodes == []


def test_a_failed_sync_gives_its_reason(directory: DelayDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delay_directory, "system_sync", lambda: lambda _: errno.EIO)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)) as failure:
        directory.sync([])
    assert failure.value.errno == errno.EIO
