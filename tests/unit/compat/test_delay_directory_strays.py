"""Stray files in a delay directory are reported and left alone; damaged files are quarantined."""

import errno
import os
from pathlib import Path

import pytest

from mocketmq_compat.delay.directories.delay_directory import DelayDirectory
from mocketmq_compat.delay.quarantine import QUARANTINE, pieces_in
from tests.support.delayed_files import DUE_MS, made
from tests.unit.compat.directories import BLOCK, SECOND, files_below, names_in, scanned

# Stray files


@pytest.mark.parametrize(
    "name",
    ["orders", "0170", "١٧٠٠", "1_0", "-5", "170.bak", "lost+found", " 170"],
)
def test_foreign_directories_are_named_and_left_alone(directory: DelayDirectory, name: str) -> None:
    (directory.root / name).mkdir()
    made().put(directory.root, f"{name}/{made().entry.name}")
    assert scanned(directory) == ([], [name])
    assert files_below(directory.root) == {f"{name}/{made().entry.name}"}


def test_files_and_links_among_the_directories_are_named_and_left_alone(
    directory: DelayDirectory, tmp_path: Path
) -> None:
    file = made()
    file.put(tmp_path / "elsewhere")
    (directory.root / str(SECOND)).symlink_to(tmp_path / "elsewhere" / str(SECOND))
    (directory.root / "17").write_text("a file named as a second")
    (directory.root / "note").write_text("")
    (directory.root / QUARANTINE).mkdir()
    assert scanned(directory) == ([], ["17", str(SECOND), "note"])


def test_other_files_of_a_second_are_strays(directory: DelayDirectory) -> None:
    file, later = made(), made(due_ms=DUE_MS + 1_000)
    place = directory.root / str(SECOND)
    strays = {
        "by-hand": file.content,
        f"0{file.entry.name}": file.content,
        file.entry.name.upper(): file.content,
        file.entry.name.replace("1", "١"): file.content,
        f"copy of {file.entry.name}": file.content,
        later.entry.name: later.content,
        "notes.tmp": b"somebody's",
    }
    file.put(directory.root)
    for name, content in strays.items():
        (place / name).write_bytes(content)
    ((found,), others) = scanned(directory)
    assert (found.second, found.entries, others) == (SECOND, [file.entry], [])
    assert sorted(found.strays) == sorted(strays)
    assert {name: directory.read_stray(SECOND, name) for name in strays} == strays


def test_files_being_copied_may_have_temporary_names(directory: DelayDirectory) -> None:
    copying = directory.root / str(SECOND) / "by-hand.tmp"
    made().put(directory.root)
    copying.write_text("half of it")
    assert scanned(directory, is_starting=False)[0][0].strays == []
    assert scanned(directory)[0][0].strays == ["by-hand.tmp"]
    assert copying.exists()


def test_a_directory_named_like_a_message_is_a_stray(directory: DelayDirectory) -> None:
    file = made()
    file.put(directory.root)
    link, folder, pipe, temporary = (made(key).entry.name for key in ("link", "folder", "pipe", "temporary"))
    place = directory.root / str(SECOND)
    (place / link).symlink_to(directory.root / file.place)
    (place / folder).mkdir()
    (place / f"{temporary}.tmp").mkdir()
    os.mkfifo(place / pipe)
    ((found,), _) = scanned(directory)
    assert found.entries == [file.entry]
    assert sorted(found.strays) == sorted([link, folder, f"{temporary}.tmp", pipe])
    open_files = len(names_in(Path("/dev/fd")))
    for name, number in ((link, errno.ELOOP), (folder, errno.EISDIR)):
        with pytest.raises(OSError) as refused:
            directory.read_stray(SECOND, name)
        assert refused.value.errno == number
    assert directory.read_stray(SECOND, pipe) == b"", "nor does it wait for somebody to write"
    assert len(names_in(Path("/dev/fd"))) <= open_files


def test_scan_counts_disk_use_and_finds_the_last_change(directory: DelayDirectory) -> None:
    small, big = made("A"), made("B", b"x" * 5_000)
    small.put(directory.root)
    big.put(directory.root)
    later = made("C", due_ms=DUE_MS + 1_000)
    later.put(directory.root)
    places = [directory.root / str(second) for second in (SECOND, SECOND + 1)]
    for place in places:
        os.utime(place, ns=(1_000, 1_000))  # the time of a restored backup, which counts as a change too
    first_ns, last_ns = (place.stat().st_ctime_ns for place in places)
    found, _ = scanned(directory)
    assert [(one.second, one.disk_bytes, one.changed_ns) for one in found] == [
        (SECOND, 3 * BLOCK, first_ns),
        (SECOND + 1, BLOCK, last_ns),
    ]
    assert [one.second for one in scanned(directory, {(SECOND, first_ns)})[0]] == [SECOND + 1]
    assert scanned(directory, {(SECOND, first_ns), (SECOND + 1, last_ns)})[0] == []


def test_a_second_may_vanish_during_a_scan(directory: DelayDirectory) -> None:
    files = [made(due_ms=DUE_MS + number * 1_000) for number in range(20)]
    for file in files:
        directory.write(file.entry, file.content)
    scan = directory.scan(lambda *_: False)
    seen = [next(scan)]
    for file in files:
        directory.remove_file(file.entry)
        directory.remove_second(file.entry.second)
    seen += scan
    assert len(seen) < len(files)


# The quarantine


def test_quarantine_keeps_the_file_with_the_reason(directory: DelayDirectory) -> None:
    assert pieces_in(directory.root) == 0
    file = made()
    file.put(directory.root)
    directory.quarantine(SECOND, file.entry.name, "the checksum is wrong")
    bad = directory.root / QUARANTINE
    assert (bad / f"{SECOND}-{file.entry.name}").read_bytes() == file.content
    assert (bad / f"{SECOND}-{file.entry.name}.reason").read_text() == "the checksum is wrong\n"
    assert pieces_in(directory.root) == 1
    assert scanned(directory)[0][0].entries == []
    assert scanned(directory)[1] == []


def test_quarantine_never_overwrites_files(directory: DelayDirectory) -> None:
    for content in ("first", "second", "third"):
        (directory.root / "7").mkdir(exist_ok=True)
        (directory.root / "7" / "name").write_text(content)
        directory.quarantine(7, "name", f"bad {content}")
    bad = directory.root / QUARANTINE
    kept = {path.read_text(): (bad / f"{path.name}.reason").read_text() for path in bad.glob("*[!n]")}
    assert kept == {content: f"bad {content}\n" for content in ("first", "second", "third")}
    assert pieces_in(directory.root) == 3


def test_any_name_can_be_quarantined(directory: DelayDirectory) -> None:
    place = directory.root / "7"
    place.mkdir()
    names = ["x" * 255, "x" * 254 + "y", os.fsdecode(b"\xff\xfe"), "é" * 127, "a\nb", ".hidden"]
    for name in names:
        (place / name).write_text(name.encode("utf-8", "backslashreplace").decode())
        directory.quarantine(7, name, "no message")
    assert pieces_in(directory.root) == len(names)
    assert list(place.iterdir()) == []


def test_missing_file_cannot_be_quarantined(directory: DelayDirectory) -> None:
    with pytest.raises(FileNotFoundError):
        directory.quarantine(SECOND, "delivered-meanwhile", "whatever")
    assert pieces_in(directory.root) == 0
    assert files_below(directory.root) == set()
