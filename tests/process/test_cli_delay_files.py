"""``mocketmq delayed ls`` and ``cat`` on files, without a broker."""

import json
from pathlib import Path

import pytest

from mocketmq.store.lock import DirectoryLock
from tests.process.delay_files import DUE, NOWHERE, Ended, answer, damaged, in_a_process, mocketmq
from tests.support.delayed_files import DUE_MS, made

# ls


def test_files_are_listed_in_order_of_due_time(delay: Path) -> None:
    first = made("AA", due_ms=DUE_MS - 5_000, number=9)
    second = made("BB", number=1, topic="bills", properties={"TAGS": "paid", "KEYS": "o1 c2"})
    third = made("CC", number=2)
    for file in (third, first, second):
        file.put(delay)
    shown = mocketmq("ls", "--dir", delay)
    assert (shown.code, shown.stderr) == (0, "")
    assert shown == mocketmq("ls", "--dir", delay.parent)
    rows = [line.split() for line in shown.stdout.splitlines()[2:]]
    assert rows == [
        ["2023-11-14T22:13:15.250Z", "orders", "2", "AA", "–", "5", first.place],
        [DUE, "bills", "2", "BB", "paid", "o1", "c2", "5", second.place],
        [DUE, "orders", "2", "CC", "–", "5", third.place],
    ]
    page = answer("ls", "--dir", delay)
    assert page["messages"][1] == {
        "message_id": "BB",
        "offset_message_id": "7F00000100002A9F0000000000000001",
        "due_ms": DUE_MS,
        "real_topic": "bills",
        "real_queue_id": 2,
        "tag": "paid",
        "keys": ["o1", "c2"],
        "properties": {"TAGS": "paid", "KEYS": "o1 c2"},
        "born_ms": DUE_MS - 10_001,
        "store_ms": DUE_MS - 10_000,
        "reconsume_times": 0,
        "size": 5,
        "file": second.place,
    }
    assert (page["next_after"], page["problems"]) == (None, [])


def test_list_shows_foreign_files_and_counts_omitted_ones(delay: Path) -> None:
    made("AA", due_ms=DUE_MS - 5_000).put(delay)
    made("BB", due_ms=DUE_MS - 1_000).put(delay, "7/by-hand")
    made("CC").put(delay)
    bad = damaged(made("DD"), delay)
    (delay / "note").write_text("a note")
    page = answer("ls", "--dir", delay)
    assert [each["message_id"] for each in page["messages"]] == ["AA", "BB", "CC"]
    assert page["messages"][1]["file"] == "7/by-hand"
    assert {each["file"]: each["kind"] for each in page["problems"]} == {
        "note": "stray",
        str(bad.relative_to(delay)): "checksum",
    }
    shown = mocketmq("ls", "--dir", delay).stdout
    assert shown.endswith("2 skipped: see mocketmq delayed verify\n")


def test_no_pending_files(delay: Path) -> None:
    delay.parent.mkdir()
    DirectoryLock(delay.parent).close()
    never = mocketmq("ls", "--dir", delay.parent)
    assert (never.code, never.stdout) == (4, "")
    assert "has never contained a delayed message" in never.stderr
    delay.mkdir()
    for path in (delay, delay.parent):
        assert mocketmq("ls", "--dir", path) == Ended(0, "nothing is pending\n", "")
    assert answer("ls", "--dir", delay) == {"messages": [], "next_after": None, "problems": []}


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--level", "3"], "--level has no effect"),
        (["--url", NOWHERE], "--url has no effect"),
        (["--token", "secret"], "--token has no effect"),
        (["--after", "12"], "'12' is not the end of a page"),
        (["--max", "0"], "--max"),
        (["--dir", "nowhere"], "'nowhere' does not exist"),
    ],
)
def test_options_without_meaning_for_files_are_refused(
    tmp_path: Path, args: list[str], sentence: str
) -> None:
    refused = mocketmq("ls", "--dir", tmp_path, *args)
    assert refused.code == 2
    assert sentence in refused.stderr


def test_without_a_directory_the_running_broker_is_queried() -> None:
    assert mocketmq("ls").code == 3
    assert mocketmq("ls", "--after", made().entry.name).code == 2


# cat


def test_message_is_found_by_each_of_its_names(delay: Path, tmp_path: Path) -> None:
    file = made("0A" * 16, b"first\nsecond \x1b[2J", number=0x1F, properties={"KEYS": "\x9b"})
    path = file.put(delay)
    for number in range(3):
        made(f"other {number}", number=number).put(delay)
    by_hand = made("by hand", number=0x20).put(delay, "7/by-hand")
    shown = mocketmq("cat", path)
    assert shown.code == 0
    header, _, body = shown.stdout.partition("\n\n")
    assert json.loads(header) == json.loads(file.content.split(b"\n")[1])
    assert '"KEYS": "\\u009b"' in header
    assert body == "first\nsecond \\x1b[2J\n"
    for name in ("0A" * 16, "7F00000100002A9F000000000000001F", file.place, file.entry.name):
        assert mocketmq("cat", "--dir", delay.parent, name) == shown, name
    assert answer("cat", "--dir", delay, "0A" * 16) == {
        "file": file.place,
        "header": json.loads(header),
        "body": "first\nsecond \x1b[2J",
        "body_base64": None,
    }
    for name in ("by hand", "7/by-hand", "by-hand", "7f00000100002a9f0000000000000020"):
        assert answer("cat", "--dir", delay, name)["file"] == "7/by-hand"
    aside = tmp_path / "aside"
    by_hand.rename(aside)
    assert answer("cat", aside)["header"]["unique_key"] == "by hand"


def test_a_body_is_written_byte_by_byte(delay: Path) -> None:
    body = bytes(range(256)) + b"\r\n\n"
    made("AA", body).put(delay)
    ended = in_a_process("cat", "--dir", delay, "AA", "--body", capture_output=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, body, b"")
    shown = mocketmq("cat", "--dir", delay, "AA").stdout
    assert shown.endswith("\n\na body of 259 bytes that is not text: write it with --body\n")
    assert answer("cat", "--dir", delay, "AA")["body"] is None


def test_reasons_for_not_showing_a_file_are_distinguished(delay: Path) -> None:
    bad = damaged(made("AA"), delay)
    made("BB").put(delay)
    made("BB").put(delay, "7/again")
    cases: list[tuple[list[str | Path], int, str]] = [
        (["--dir", delay, "CC"], 4, f"no file in {delay} contains a message CC"),
        (["--dir", delay, "AA"], 6, f"{bad.relative_to(delay)}: the content does not match the checksum"),
        ([bad], 6, f"{bad}: the content does not match the checksum"),
        (["--dir", delay, "BB"], 2, f"name one of them: 7/again, {made('BB').place}"),
        (["CC"], 2, "there is no file 'CC'; name the directory"),
        (["--dir", delay, "BB", "--body", "--json"], 2, "only one of --body and --json"),
    ]
    for args, code, sentence in cases:
        ended = mocketmq("cat", *args)
        assert (ended.code, ended.stdout) == (code, ""), args
        assert sentence in ended.stderr
