"""Inspecting a delay directory while a broker delivers from it, or while a disk fails."""

from pathlib import Path

import pytest

from mocketmq.errors import StoreUnavailableError
from mocketmq_compat.delay.delayed_file import DamagedFileError
from mocketmq_compat.delay.directories.delay_inspection import (
    FileLocation,
    find_files,
    in_order,
    list_files,
    message_in,
    read,
    verify,
)
from mocketmq_compat.delay.inspection import FolderProblem, InspectionProgress, KeptMessage
from mocketmq_compat.delay.offline import Imported, SchemeFolder, import_messages
from tests.support.delayed_files import DUE_MS, made

FIRST, SECOND = made("first"), made("second", due_ms=DUE_MS + 1_000)


def ignore(_what: str, _done: int, _total: int | None) -> None:
    """Ignore progress."""


def import_files(data: Path, root: Path, progress: InspectionProgress) -> Imported:
    return import_messages(data, "directories", [SchemeFolder("directories", root)], progress)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "delay"
    FIRST.put(root)
    SECOND.put(root)
    return root


def test_messages_delivered_meanwhile_are_ignored(root: Path, tmp_path: Path) -> None:
    places = list_files(root, ignore).places
    gone = root / FIRST.place

    def deliver(what: str, _done: int, _total: int | None) -> None:
        if what != "looking for files":
            gone.unlink(missing_ok=True)

    report = verify(root, deliver)
    assert (report.files, report.messages, report.is_good) == (1, 1, True)
    assert [each.entry for each in in_order(root, places, ignore) if isinstance(each, KeptMessage)] == [
        SECOND.entry
    ]
    assert find_files(root, places, "first") == []
    FIRST.put(root)
    assert import_files(tmp_path / "data", root, deliver).imported == 1
    assert not gone.exists()


def test_second_removed_meanwhile_is_skipped(root: Path) -> None:
    def remove(*_: object) -> None:
        for path in sorted(root.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()

    assert len(list_files(root, remove).places) == 1


def test_unreadable_file_is_reported(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> bytes:
        raise OSError(5, "Input/output error", str(path))

    listing = list_files(root, ignore)
    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(DamagedFileError, match="cannot be read: Input/output error"):
        read(root, listing.places[0])
    assert list(in_order(root, listing.places, ignore)) == [
        FolderProblem(file.place, "unreadable", "the file cannot be read: Input/output error")
        for file in (FIRST, SECOND)
    ]


def test_places() -> None:
    entry = FIRST.entry
    assert FileLocation(entry.second, entry.name).entry == entry
    assert FileLocation(entry.second + 1, entry.name).entry is None
    assert FileLocation(entry.second, "by-hand").entry is None
    assert message_in(FileLocation(7, "by-hand"), FIRST.content).entry == entry
    with pytest.raises(DamagedFileError, match=f"its header belongs to file {FIRST.place}"):
        message_in(FileLocation(SECOND.entry.second, SECOND.entry.name), FIRST.content)


def test_progress_is_reported_for_every_file(root: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    import_files(tmp_path / "data", root, lambda *step: told.append(step))
    assert told == [
        ("looking for files", 1, None),
        ("looking for files", 2, None),
        ("importing files", 0, 2),
        ("importing files", 1, 2),
    ]


def test_failed_sync_fails_the_import(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("mocketmq_compat.delay.directories.delay_directory.DelayDirectory.sync", fail)
    with pytest.raises(StoreUnavailableError, match="incomplete: Input/output error; repeat it"):
        import_files(tmp_path / "data", root, ignore)
