"""``mocketmq delayed import`` and ``verify``: damaged files are found, valid files are imported once."""

import asyncio
import os
import pty
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from mocketmq.store.lock import DirectoryLock
from tests.process.delay_files import (
    Ended,
    answer,
    command,
    damaged,
    files_below,
    in_a_process,
    mocketmq,
)
from tests.support.delayed_files import DUE_MS, made
from tests.support.process import forked_broker

# verify


def test_verify_finds_every_kind_of_damage(delay: Path) -> None:
    good, other = made("good"), made("other", number=8)
    places = {"good": good.put(delay)}
    problems: dict[str, tuple[str, str]] = {}

    def add(path: Path, kind: str, reason: str) -> None:
        problems[str(path.relative_to(delay))] = (kind, reason)

    torn = made("torn").put(delay)
    torn.write_bytes(torn.read_bytes()[:30])
    add(torn, "torn", "ends after 30 bytes")
    add(damaged(made("checksum"), delay), "checksum", "checksum in the first line")
    add(made("topic", topic="not a topic").put(delay), "header", "illegal characters")
    add(made("queue", queue_id=-1).put(delay), "header", "queue_id is -1")
    add(made("empty", b"").put(delay), "header", "the body is empty")
    newer = made("newer").put(delay)
    newer.write_bytes(newer.read_bytes().replace(b"delayed 1", b"delayed 2", 1))
    add(newer, "version", "has format version 2")
    renamed = made("renamed").put(delay, other.place)
    add(renamed, "name", f"its header belongs to file {made('renamed').place}")
    elsewhere = made("elsewhere").put(delay, f"7/{made('elsewhere').entry.name}")
    add(elsewhere, "name", f"its header belongs to file {made('elsewhere').place}")
    add(good.put(delay, "7/again"), "duplicate", f"{good.place} is the same message")
    later = made("good", due_ms=DUE_MS + 60_000)
    add(later.put(delay), "duplicate", "the same message")
    text = delay / "7" / "text"
    text.write_text("some text")
    add(text, "stray", "does not begin with the header of a delayed message")
    link = delay / "7" / "link"
    link.symlink_to(places["good"])
    add(link, "stray", "a directory, a link or a device")
    (delay / "7" / "folder").mkdir()
    add(delay / "7" / "folder", "stray", "a directory, a link or a device")
    (delay / "0170").mkdir()
    add(delay / "0170", "stray", "not a directory named by an epoch second")
    (delay / os.fsdecode(b"\xff")).mkdir()
    problems["\\xff"] = ("stray", "not a directory named by an epoch second")
    made("being written").put(delay, f"{made('being written').place}.tmp")
    (delay / ".bad").mkdir()
    (delay / ".bad" / "7-one").write_text("whatever")
    (delay / ".bad" / "7-one.reason").write_text("it was torn\n")
    (delay / ".bad" / "7-two").write_text("whatever")

    before = files_below(delay)
    report = answer("verify", "--dir", delay, code=6)
    found = {each["file"]: (each["kind"], each["reason"]) for each in report["problems"]}
    # If several files have one message, the first file counts, here the copy in an earlier second.
    assert problems.pop("7/again")[0] == "duplicate"
    kind, reason = found.pop("7/again")
    assert (kind, reason) == ("name", f"its header belongs to file {good.place}")
    problems[good.place] = ("duplicate", "7/again is the same message")
    assert {file: kind for file, (kind, _) in found.items()} == {
        file: kind for file, (kind, _) in problems.items()
    }
    for file, (_, reason) in problems.items():
        assert reason in found[file][1], file
    assert report["quarantined"] == [
        {"file": ".bad/7-one", "kind": "quarantined", "reason": "it was torn"},
        {"file": ".bad/7-two", "kind": "quarantined", "reason": "no reason was recorded"},
    ]
    assert (report["messages"], report["temporary"], report["is_good"]) == (0, 1, False)

    shown = mocketmq("verify", "--dir", delay)
    assert shown.code == 6
    assert re.search(r"^7/text +stray +the file does not begin", shown.stdout, re.MULTILINE)
    assert re.search(r"^\.bad/7-one +quarantined +it was torn *$", shown.stdout, re.MULTILINE)
    assert shown.stdout.endswith(
        "; 1 temporary, still being written or left by a kill:"
        f" {len(problems) + 1} problems, 2 in the quarantine\n"
    )
    mocketmq("ls", "--dir", delay)
    mocketmq("cat", "--dir", delay, "good")
    assert files_below(delay) == before, "looking changes nothing"


def test_a_directory_that_cannot_be_read(delay: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made().put(delay)

    def refuse(path: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    for args in (["ls"], ["verify"], ["cat", "AB01"]):
        assert mocketmq(*args, "--dir", delay) == Ended(
            5, "", f"Error: {delay} cannot be read: Permission denied\n"
        )


SLOW = """
import itertools
from mocketmq.cli import progress_line
steps = itertools.count(0, 600_000)
progress_line.steady_us = lambda: next(steps)
"""


def written_to(terminal: int) -> Iterator[bytes]:
    with os.fdopen(terminal, "rb", buffering=0) as output, suppress(OSError):  # raised at a terminal's end
        while some := output.read(4_096):
            yield some


def test_a_terminal_shows_progress(delay: Path) -> None:
    for number in range(5):
        made(str(number), number=number).put(delay)
    terminal, slave = pty.openpty()
    with os.fdopen(slave, "wb") as stderr:
        ended = in_a_process("verify", "--dir", delay, code=SLOW, stdout=subprocess.PIPE, stderr=stderr)
    seen = b"".join(written_to(terminal))
    assert (ended.returncode, ended.stdout.count(b"\n")) == (0, 1)
    assert re.search(rb"checking files.*4/5", seen)
    piped = in_a_process("verify", "--dir", delay, code=SLOW, capture_output=True)
    assert (piped.stdout, piped.stderr) == (ended.stdout, b"")


def test_verification_under_a_second_shows_no_progress(delay: Path) -> None:
    made().put(delay)
    terminal, slave = pty.openpty()
    with os.fdopen(slave, "wb") as stderr:
        quick = "from mocketmq.cli import progress_line; progress_line.steady_us = lambda: 0"
        ended = in_a_process("verify", "--dir", delay, code=quick, stdout=subprocess.PIPE, stderr=stderr)
        stderr.write(b"end")
    assert ended.returncode == 0
    assert b"".join(written_to(terminal)) == b"end"


# import


def test_import_places_every_message_once(delay: Path, tmp_path: Path) -> None:
    files = [made("AA"), made("BB", due_ms=DUE_MS + 60_000), made("CC", number=8)]
    files[0].put(delay)
    files[1].put(delay)
    files[2].put(delay, "7/by-hand")
    before = files_below(delay)
    data = tmp_path / "new" / "data"
    size = sum(len(file.content) for file in files)
    for source, imported, there in ((delay, 3, 0), (delay.parent, 0, 3)):
        assert answer("import", "--data", data, source) == {
            "imported": imported,
            "bytes": size if imported else 0,
            "already_there": there,
            "problems": [],
        }
        assert files_below(data / "delay") == {file.place: file.content for file in files}
    assert files_below(delay) == before
    shown = mocketmq("import", "--data", data, delay)
    assert shown == Ended(0, "imported 0 messages, 0 bytes; there already: 3; not imported: 0\n", "")
    assert mocketmq("verify", "--dir", data).code == 0


def test_duplicate_message_of_a_source_is_imported_once(delay: Path, tmp_path: Path) -> None:
    file = made("AA")
    first = made("AA", due_ms=DUE_MS - 60_000)
    for place in (None, "7000000000/again"):
        file.put(delay, place)
    assert answer("import", "--data", tmp_path / "new", delay) == {
        "imported": 1,
        "bytes": len(file.content),
        "already_there": 1,
        "problems": [],
    }
    first.put(delay)
    problems = answer("import", "--data", tmp_path / "other", delay, code=6)["problems"]
    assert [each["kind"] for each in problems] == ["conflict", "conflict"]
    assert files_below(tmp_path / "other" / "delay") == {first.place: first.content}


def test_damaged_files_are_reported_and_not_imported(delay: Path, tmp_path: Path) -> None:
    good = made("good")
    good.put(delay)
    bad = damaged(made("bad"), delay)
    made("nowhere", topic="not a topic").put(delay)
    (delay / "7").write_text("no directory")
    shown = mocketmq("import", "--data", tmp_path / "new", delay)
    assert shown.code == 6
    assert re.search(rf"^{bad.relative_to(delay)} +checksum +the content", shown.stdout, re.MULTILINE)
    assert shown.stdout.endswith("; there already: 0; not imported: 3\n")
    assert files_below(tmp_path / "new" / "delay") == {good.place: good.content}
    problems = answer("import", "--data", tmp_path / "new", delay, code=6)["problems"]
    assert sorted(each["kind"] for each in problems) == ["checksum", "header", "stray"]


def test_message_with_differing_content_is_not_imported(delay: Path, tmp_path: Path) -> None:
    kept = made("AA")
    kept.put(tmp_path / "new" / "delay")
    other = made("AA", b"other", due_ms=DUE_MS + 1)
    other.put(delay)
    report = answer("import", "--data", tmp_path / "new", delay, code=6)
    assert [(each["file"], each["kind"]) for each in report["problems"]] == [(other.place, "conflict")]
    assert kept.place.rpartition("/")[2] in report["problems"][0]["reason"]
    assert files_below(tmp_path / "new" / "delay") == {kept.place: kept.content}


def test_import_from_a_backup_replaces_damaged_files(delay: Path, tmp_path: Path) -> None:
    file, foreign = made("AA"), made("BB")
    file.put(tmp_path / "backup")
    foreign.put(tmp_path / "backup")
    bad = damaged(file, delay).read_bytes()
    foreign.put(delay, "7/by-hand")
    report = answer("import", "--data", delay.parent, tmp_path / "backup")
    assert (report["imported"], report["already_there"]) == (1, 1)
    assert files_below(delay) == {
        file.place: file.content,
        foreign.place: foreign.content,  # adopted, as a broker would do
        f".bad/{file.place.replace('/', '-')}": bad,
        f".bad/{file.place.replace('/', '-')}.reason": (
            b"the content does not match the checksum in the first line\n"
        ),
    }


def test_an_import_is_refused_while_a_broker_owns_the_data(delay: Path, tmp_path: Path) -> None:
    made().put(delay)
    data = tmp_path / "new"
    with closing(DirectoryLock(data)):
        refused = mocketmq("import", "--data", data, delay)
    assert (refused.code, refused.stdout) == (5, "")
    assert f"{data} is in use by the process with pid {os.getpid()}; stop it" in refused.stderr
    assert not (data / "delay").exists()


def test_impossible_sources_and_targets_are_refused(delay: Path, tmp_path: Path) -> None:
    made().put(delay)
    DirectoryLock(delay.parent).close()
    for data, source, sentence in (
        (":memory:", delay, ":memory: is not a data directory"),
        (delay, tmp_path, f"{delay} is not a data directory"),
        (delay.parent, delay.parent, "is also the directory to import into"),
        (delay.parent, delay, "is also the directory to import into"),
        (tmp_path / "new", tmp_path / "nowhere", "does not exist"),
    ):
        refused = mocketmq("import", "--data", data, source)
        assert refused.code == 2
        assert sentence in refused.stderr
    assert mocketmq("import", delay).code == 2
    assert not (tmp_path / "new").exists()


FULL = """
import os
rename, renamed = os.replace, []
def rename_two(*paths):
    if len(renamed) == 2:
        raise OSError(28, "No space left on device")
    renamed.append(paths)
    rename(*paths)
os.replace = rename_two
"""


def test_import_ended_by_a_full_disk_can_be_repeated(delay: Path, tmp_path: Path) -> None:
    files = [made(str(number), number=number) for number in range(4)]
    for file in files:
        file.put(delay)
    args = ("import", "--data", tmp_path / "new", delay)
    ended = in_a_process(*args, code=FULL, capture_output=True)
    assert (ended.returncode, ended.stdout) == (5, b"")
    assert b"the import is incomplete: No space left on device; repeat it" in ended.stderr
    assert b"Traceback" not in ended.stderr
    assert len(files_below(tmp_path / "new" / "delay")) == 2
    report = answer(*args)
    assert (report["imported"], report["already_there"]) == (2, 2)
    assert files_below(tmp_path / "new" / "delay") == {file.place: file.content for file in files}


SYNCED = """
from mocketmq_compat.delay.directories.delay_directory import DelayDirectory
sync = DelayDirectory.sync
def tell(self, entries):
    names = sorted(path.name for path in self.root.rglob("*.msg"))
    assert sorted(entry.name for entry in entries) == names
    sync(self, entries)
    print("synced", len(names))
DelayDirectory.sync = tell
"""


def test_an_import_is_durable_before_it_is_reported(delay: Path, tmp_path: Path) -> None:
    for number in range(3):
        made(str(number), number=number).put(delay)
    ended = in_a_process("import", "--data", tmp_path / "new", delay, code=SYNCED, capture_output=True)
    assert ended.returncode == 0
    assert re.fullmatch(rb"synced 3\nimported 3 messages, .*\n", ended.stdout)


# With brokers


async def test_messages_go_from_one_broker_to_another_and_are_delivered_once(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    async with forked_broker("--data", str(old), "--clock", "manual") as broker:
        sent = [
            await asyncio.to_thread(
                command, broker.url, "send", "orders", f"body {days}", "--delay", f"{days}d"
            )
            for days in (2, 1)
        ]
        listed = answer("ls", "--dir", old)["messages"]
        assert [each["message_id"] for each in listed] == [each["message_id"] for each in reversed(sent)]
        assert [each["due_ms"] for each in listed] == [each["due_ms"] for each in reversed(sent)]
        assert answer("verify", "--dir", old)["messages"] == 2
        assert answer("cat", "--dir", old, sent[0]["message_id"])["body"] == "body 2"
        refused = mocketmq("import", "--data", old, tmp_path)
        assert (refused.code, f"pid {broker.pid}" in refused.stderr) == (5, True)

    assert answer("import", "--data", new, old)["imported"] == 2
    async with forked_broker("--data", str(new), "--clock", "manual") as broker:
        pending = await asyncio.to_thread(command, broker.url, "delayed", "ls")
        assert {each["message_id"] for each in pending["messages"]} == {each["message_id"] for each in sent}
        assert (await asyncio.to_thread(command, broker.url, "clock", "advance", "3d"))["fired"] == 2
        received = await asyncio.to_thread(
            command, broker.url, "receive", "orders", "--group", "g", "--max", "9"
        )
        assert [each["body"] for each in received["messages"]] == ["body 1", "body 2"]

    assert answer("import", "--data", new, old)["imported"] == 2, "its files are gone"
    async with forked_broker("--data", str(new), "--clock", "manual") as broker:
        again = await asyncio.to_thread(command, broker.url, "clock", "advance", "3d")
        assert (again["fired"], again["pending"]) == (0, 0)
    assert answer("verify", "--dir", new)["files"] == 0
