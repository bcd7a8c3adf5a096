"""``mocketmq delayed ls``, ``cat`` and ``verify`` print the same for the folder of each scheme."""

import json
import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from mocketmq.settings import TimedSchemeName
from mocketmq_compat.delay.delayed_file import DelayedFile
from mocketmq_compat.delay.offline import adding
from mocketmq_compat.delay.schemes import SCHEMES
from mocketmq_compat.delay.slots.data_file import MAGIC as SLOTS_MAGIC
from mocketmq_compat.delay.sorted import keys
from mocketmq_compat.delay.sorted.sorted_store import SortedStore
from mocketmq_compat.delay.wheel.record import MAGIC as WHEEL_MAGIC
from tests.process.delay_files import DUE, Ended, answer, files_below, mocketmq
from tests.support.brokers import running_broker
from tests.support.delayed_files import DUE_MS, Made, made
from tests.support.second_directories import HOUR_MS, send_in

DAY_MS = 24 * HOUR_MS
APPENDING = ("wheel", "slots")


def keep(scheme: TimedSchemeName, data: Path, *messages: Made) -> Path:
    """Write the messages to the scheme's folder in a data directory, without a broker."""
    root = data / SCHEMES[scheme].folder
    with adding(scheme, root, lambda *_: None) as new:
        for message in messages:
            assert new.add_message(DelayedFile(message.header, message.body))
        new.sync()
    return root


def spoil(scheme: TimedSchemeName, root: Path, message: Made) -> None:
    """Change a byte of the message's body."""
    bad = message.content[:-1] + b"?"
    if scheme == "sorted":
        with closing(SortedStore(root)) as store:
            store._rocks.write({keys.message_key(message.entry): bad}, [])
        return
    [path] = [path for path in root.rglob("*") if path.is_file() and message.content in path.read_bytes()]
    path.write_bytes(path.read_bytes().replace(message.content, bad))


def appended_to(root: Path) -> Path:
    """Return the only file of a scheme that appends records."""
    [path] = [*root.glob("*.log"), *root.glob("data/*")]
    return path


def as_it_is(root: Path) -> dict[str, tuple[int, bytes]]:
    """Return each file and folder with its modification time and its content."""
    contents = files_below(root)
    return {
        str(path): (path.lstat().st_mtime_ns, contents.get(str(path.relative_to(root)), b""))
        for path in (root, *root.rglob("*"))
    }


def listed(*args: str | Path) -> list[str]:
    return [each["message_id"] for each in answer("ls", *args)["messages"]]


def test_messages_are_listed_by_due_time_in_pages_and_by_topic(
    scheme: TimedSchemeName, tmp_path: Path
) -> None:
    dues = {"D": 2 * DAY_MS, "B": 1, "A": 0, "C": HOUR_MS, "E": 2 * DAY_MS, "G": 4 * DAY_MS, "F": 3 * DAY_MS}
    messages = [
        made(key, due_ms=DUE_MS + after, number=number, topic="bills" if key == "C" else "orders")
        for number, (key, after) in enumerate(dues.items())
    ]
    root = keep(scheme, tmp_path, *messages)
    page = answer("ls", "--dir", tmp_path)
    assert [each["message_id"] for each in page["messages"]] == [*"ABCDEFG"]
    assert [each["due_ms"] - DUE_MS for each in page["messages"]] == sorted(dues.values())
    assert (page["next_after"], page["problems"]) == (None, [])
    assert page == answer("ls", "--dir", root)
    assert page == answer("ls", "--dir", tmp_path, "--timed-scheme", scheme)
    names = [each["file"].rpartition("/")[2] for each in page["messages"]]
    assert names == [message.entry.name for message in sorted(messages, key=lambda each: each.entry)]
    pages: list[list[str]] = []
    after: list[str] = []
    while after or not pages:
        page = answer("ls", "--dir", tmp_path, "--max", "3", "--topic", "orders", *after)
        pages.append([each["message_id"] for each in page["messages"]])
        after = ["--after", page["next_after"]] if page["next_after"] else []
    assert pages == [["A", "B", "D"], ["E", "F", "G"], []]  # D and E are due together
    shown = mocketmq("ls", "--dir", tmp_path, "--max", "1")
    assert (shown.code, shown.stderr) == (0, "")
    assert shown.stdout.endswith(f"there may be more: --after {names[0]}\n")


def test_message_is_found_by_each_of_its_names(scheme: TimedSchemeName, tmp_path: Path) -> None:
    message = made("0A" * 16, b"first\nsecond", number=0x1F, properties={"KEYS": "k"})
    root = keep(scheme, tmp_path, message, *(made(f"other {n}", number=n) for n in range(3)))
    found = answer("cat", "--dir", tmp_path, "0A" * 16)
    assert found["header"] == json.loads(message.content.split(b"\n")[1])
    assert (found["body"], found["body_base64"]) == ("first\nsecond", None)
    for name in ("7F00000100002A9F000000000000001F", message.entry.name, found["file"]):
        assert answer("cat", "--dir", root, name) == found, name
    assert mocketmq("cat", "--dir", root, "0A" * 16).stdout.endswith("\n\nfirst\nsecond\n")
    assert mocketmq("cat", "--dir", root, "0A" * 16, "--body").stdout == "first\nsecond"
    missing = mocketmq("cat", "--dir", tmp_path, "nobody")
    assert (missing.code, missing.stdout) == (4, "")
    assert f"no file in {root} contains a message nobody" in missing.stderr


def test_an_intact_folder_is_confirmed(scheme: TimedSchemeName, tmp_path: Path) -> None:
    topics = ("orders", "bills", "bills")
    messages = [made(f"M{n}", due_ms=DUE_MS + 1_000 * n, topic=topic) for n, topic in enumerate(topics)]
    root = keep(scheme, tmp_path, *messages)
    report = answer("verify", "--dir", tmp_path)
    contents = files_below(root)
    size = sum(map(len, contents.values()))
    assert report == {
        "directory": str(root),
        "is_good": True,
        "files": len(contents),
        "messages": 3,
        "bytes": size,
        "first_due_ms": DUE_MS,
        "last_due_ms": DUE_MS + 2_000,
        "topics": {"bills": 2, "orders": 1},
        "problems": [],
        "quarantined": [],
        "temporary": 0,
    }
    assert mocketmq("verify", "--dir", root) == Ended(
        0,
        f"3 messages in {len(contents)} file{'s' if len(contents) > 1 else ''}, {size:,} bytes,"
        f" due from {DUE} to {DUE.replace('20.', '22.')}: no problems\n",
        "",
    )


def test_a_damaged_message_is_named_and_the_others_are_listed(
    scheme: TimedSchemeName, tmp_path: Path
) -> None:
    before, bad, after = (made(key, key.encode() * 9, number=n) for n, key in enumerate("ABC"))
    root = keep(scheme, tmp_path, before, bad, after)
    spoil(scheme, root, bad)
    page = answer("ls", "--dir", tmp_path)
    assert [each["message_id"] for each in page["messages"]] == ["A", "C"]
    [problem] = page["problems"]
    assert problem["file"].endswith(bad.entry.name)
    assert problem["kind"] == "checksum"
    assert mocketmq("ls", "--dir", tmp_path).stdout.endswith("1 skipped: see mocketmq delayed verify\n")
    report = answer("verify", "--dir", tmp_path, code=6)
    assert (report["messages"], report["is_good"], report["problems"]) == (2, False, [problem])
    for name in ("B", problem["file"]):
        shown = mocketmq("cat", "--dir", tmp_path, name)
        assert (shown.code, shown.stdout) == (6, "")
        assert f"{problem['file']}: the content does not match the checksum" in shown.stderr


def test_a_duplicate_message_is_reported_once(scheme: TimedSchemeName, tmp_path: Path) -> None:
    one, again = made("A"), made("A", due_ms=DUE_MS + DAY_MS)
    root = keep(scheme, tmp_path, one)
    if scheme == "sorted":
        with closing(SortedStore(root)) as store:
            store.write(again.entry, again.content)
    else:
        shutil.copytree(keep(scheme, tmp_path / "other", again), root, dirs_exist_ok=True)
    report = answer("verify", "--dir", root, code=6)
    [problem] = report["problems"]
    assert (report["messages"], problem["kind"]) == (1, "duplicate")
    shown = mocketmq("cat", "--dir", root, "A")
    assert (shown.code, problem["file"] in shown.stderr) == (2, True)
    assert answer("cat", "--dir", root, problem["file"])["header"]["due_us"] == again.header.due_us


def test_quarantined_files_are_reported(scheme: TimedSchemeName, tmp_path: Path) -> None:
    root = keep(scheme, tmp_path, made())
    (root / ".bad").mkdir()
    (root / ".bad" / "one").write_text("whatever")
    (root / ".bad" / "one.reason").write_text("it was torn\n")
    report = answer("verify", "--dir", tmp_path, code=6)
    assert report["quarantined"] == [{"file": ".bad/one", "kind": "quarantined", "reason": "it was torn"}]
    assert (report["messages"], report["problems"]) == (1, [])


def test_reading_changes_no_file(scheme: TimedSchemeName, tmp_path: Path) -> None:
    root = keep(scheme, tmp_path, made("A"), made("B", number=8))
    spoil(scheme, root, made("B", number=8))
    before = as_it_is(tmp_path)
    for args in (["ls"], ["verify"], ["cat", "A"], ["cat", "B"], ["cat", "nobody"]):
        mocketmq(*args, "--dir", tmp_path)
    assert as_it_is(tmp_path) == before


async def test_commands_work_beside_a_running_broker(scheme: TimedSchemeName, tmp_path: Path) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as running:
        for delay_ms in (HOUR_MS, 1_000, 9 * HOUR_MS):
            await send_in(running, delay_ms, str(delay_ms))
        [last, first, later] = await running.schemes.page(-1, 3)
        assert listed("--dir", tmp_path) == [first.unique_key, last.unique_key, later.unique_key]
        report = answer("verify", "--dir", tmp_path)
        assert (report["is_good"], report["messages"], report["temporary"]) == (True, 3, 0)
        found = answer("cat", "--dir", tmp_path, later.unique_key)
        assert (found["body"], found["header"]["due_us"]) == (str(9 * HOUR_MS), later.due_us)


async def test_empty_folders_are_valid(scheme: TimedSchemeName, tmp_path: Path) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme):
        pass
    for place in (tmp_path, tmp_path / SCHEMES[scheme].folder):
        assert mocketmq("ls", "--dir", place) == Ended(0, "nothing is pending\n", "")
        report = answer("verify", "--dir", place)
        assert (report["is_good"], report["messages"], report["topics"]) == (True, 0, {})
        assert mocketmq("cat", "--dir", place, "A").code == 4


@pytest.mark.parametrize("scheme", APPENDING)
@pytest.mark.parametrize("left", [2, 30, 80])
def test_unfinished_record_of_a_running_broker_is_no_damage(
    scheme: TimedSchemeName, left: int, tmp_path: Path
) -> None:
    whole, torn = made("whole"), made("torn", number=8)
    root = keep(scheme, tmp_path, whole)
    path = appended_to(root)
    size = path.stat().st_size
    keep(scheme, tmp_path, torn)
    os.truncate(path, size + left)
    report = answer("verify", "--dir", tmp_path)
    assert (report["is_good"], report["messages"], report["temporary"]) == (True, 1, 1)
    shown = mocketmq("verify", "--dir", tmp_path).stdout
    assert "; 1 temporary, still being written or left by a kill: no problems" in shown
    assert mocketmq("ls", "--dir", tmp_path).stderr == ""
    page = answer("ls", "--dir", tmp_path)
    assert ([each["message_id"] for each in page["messages"]], page["problems"]) == (["whole"], [])
    done = answer("import", "--data", tmp_path / "new", "--timed-scheme", "directories", tmp_path)
    assert (done["imported"], done["problems"]) == (1, [])


@pytest.mark.parametrize(("scheme", "magic"), [("wheel", WHEEL_MAGIC), ("slots", SLOTS_MAGIC)])
@pytest.mark.parametrize("place", [1, 2])
def test_a_damaged_head_is_reported_at_any_position(
    scheme: TimedSchemeName, magic: bytes, place: int, tmp_path: Path
) -> None:
    root = keep(scheme, tmp_path, *(made(key, number=n) for n, key in enumerate("ABC")))
    path = appended_to(root)
    content = path.read_bytes().split(magic)
    content[place + 1] = b"\xff" * 20 + content[place + 1][20:]
    path.write_bytes(magic.join(content))
    report = answer("verify", "--dir", tmp_path, code=6)
    [problem] = report["problems"]
    offset = len(magic.join(content[: place + 1]))
    assert problem["file"] == f"{path.relative_to(root)}:{offset}"
    assert (problem["kind"], report["messages"], report["temporary"]) == ("damaged", 2, 0)
    assert listed("--dir", tmp_path) == [key for n, key in enumerate("ABC") if n != place]


@pytest.mark.parametrize("scheme", APPENDING)
def test_foreign_files_are_reported(scheme: TimedSchemeName, tmp_path: Path) -> None:
    root = keep(scheme, tmp_path, made("A"))
    names = ["note"] if scheme == "wheel" else ["note", "data/note", "index/0170"]
    for name in names:
        (root / name).write_text("mine")
    report = answer("verify", "--dir", tmp_path, code=6)
    assert [(each["file"], each["kind"]) for each in report["problems"]] == [
        (name, "stray") for name in sorted(names)
    ]
    assert listed("--dir", tmp_path) == ["A"]


def test_data_of_another_version_is_reported(tmp_path: Path) -> None:
    path = appended_to(keep("slots", tmp_path, made("A")))
    path.write_bytes(path.read_bytes().replace(b"slots-data 1", b"slots-data 2"))
    [problem] = answer("verify", "--dir", tmp_path, code=6)["problems"]
    assert (problem["file"], problem["kind"]) == (f"data/{path.name}", "version")
    assert listed("--dir", tmp_path) == []


def test_exactly_one_scheme_is_chosen(tmp_path: Path) -> None:
    for number, scheme in enumerate(SCHEMES):
        keep(scheme, tmp_path, made(scheme, number=number))
    for args in (["ls"], ["verify"], ["cat", "wheel"]):
        refused = mocketmq(*args, "--dir", tmp_path)
        assert (refused.code, refused.stdout) == (2, "")
        schemes = "directories and wheel and slots and sorted"
        assert f"{tmp_path} contains messages of {schemes}; choose one of these schemes" in refused.stderr
    for scheme, place in SCHEMES.items():
        chosen = ("--dir", tmp_path, "--timed-scheme", scheme)
        assert listed(*chosen) == [scheme]
        assert answer("verify", *chosen)["directory"] == str(tmp_path / place.folder)
        assert answer("cat", *chosen, scheme)["header"]["unique_key"] == scheme


def test_unknown_scheme_is_refused(tmp_path: Path) -> None:
    keep("wheel", tmp_path, made())
    for args, code, sentence in (
        (
            ["ls", "--dir", tmp_path, "--timed-scheme", "slots"],
            4,
            "contains no folder of the delay scheme slots",
        ),
        (
            ["verify", "--dir", tmp_path, "--timed-scheme", "x"],
            2,
            "allowed: directories, wheel, slots, sorted",
        ),
        (["ls", "--timed-scheme", "wheel"], 2, "--timed-scheme has no effect on a broker; add --dir"),
    ):
        refused = mocketmq(*args)
        assert (refused.code, refused.stdout) == (code, "")
        assert sentence in refused.stderr
