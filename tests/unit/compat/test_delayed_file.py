"""The file of a delayed message: files that the writer writes can be read, and no others."""

import hashlib
import json
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.clock import US_PER_MS
from mocketmq.message.message_id import key_hash
from mocketmq_compat.delay.delayed_file import (
    DamagedFileError,
    DelayedFile,
    Entry,
    FileHeader,
    decode,
    encode,
    parse_name,
    parse_second,
)
from tests.support.delayed_files import made
from tests.support.patience import HANGING_S

SMALL = made(body=b"a\nb").content
GOLDEN = (
    b"mocketmq-delayed 1 sha256 32d9a32bd24dbb8eb8559d588ff873acf79f99ce60cc5b0c2e6dc9a206994c11\n"
    b'{"number":7,"due_us":1700000000250000,"stored_us":1699999990250000,"topic":"orders","queue_id":2,'
    b'"unique_key":"AB01","born_us":1699999990249000,"born_host":"127.0.0.1:5000",'
    b'"store_host":"127.0.0.1:10911","flag":0,"sys_flag":0,"reconsume_times":0,"size":6,'
    b'"properties":{"UNIQ_KEY":"AB01","KEYS":"\xc3\xa9\\n"}}\n'
    b"hello\n"
)

int64 = st.integers(-(1 << 63), (1 << 63) - 1)
natural = st.integers(0, (1 << 63) - 1)
due_ms = st.integers(0, 10**15 - 1)
headers = st.builds(
    FileHeader,
    number=natural,
    due_us=due_ms.map(lambda ms: ms * US_PER_MS),
    stored_us=int64,
    topic=st.text(),
    queue_id=st.integers(0, 1 << 31),
    unique_key=st.text(),
    born_us=int64,
    born_host=st.text(),
    store_host=st.text(),
    flag=int64,
    sys_flag=int64,
    reconsume_times=int64,
    size=st.just(0),
    properties=st.dictionaries(st.text(), st.text()),
)


def with_checksum(rest: bytes, version: int = 1) -> bytes:
    """Build a file as a person without this program would."""
    digest = hashlib.sha256(rest).hexdigest()
    return f"mocketmq-delayed {version} sha256 {digest}\n".encode() + rest


def damage(content: bytes) -> DamagedFileError:
    """Return why the file is refused."""
    with pytest.raises(DamagedFileError) as refused:
        decode(content)
    return refused.value


# Written files can be read


@given(headers, st.binary(max_size=2_000))
def test_any_message_is_read_back_unchanged(header: FileHeader, body: bytes) -> None:
    header = msgspec.structs.replace(header, size=len(body))
    content = encode(header, body)
    assert decode(content) == DelayedFile(header, body)
    assert content.split(b"\n", 2)[2] == body


@given(headers)
def test_a_name_matches_its_header(header: FileHeader) -> None:
    entry = header.entry
    assert parse_name(entry.name) == entry
    assert (entry.due_us, entry.number) == (header.due_us, header.number)
    assert parse_second(str(entry.second)) == entry.second == header.due_us // 1_000_000


def test_format_matches_the_golden_bytes() -> None:
    file = made(body=b"hello\n", properties={"UNIQ_KEY": "AB01", "KEYS": "é\n"})
    assert file.content == GOLDEN
    assert file.place == "1700000000/1700000000250-0000000000000007-664261b41d8ee4c7.msg"
    assert decode(GOLDEN) == DelayedFile(file.header, file.body)


def test_a_due_time_between_two_milliseconds_is_rounded_up() -> None:
    assert [made(due_us=due_us).entry.due_ms for due_us in (999, 1_000, 1_001)] == [1, 1, 2]


def test_entries_are_in_order_of_due_time_then_of_arrival() -> None:
    entries = [Entry(1, 5, 0), Entry(2, 1, 9), Entry(2, 3, 1), Entry(2, 3, 2), Entry(1_000, 0, 0)]
    assert sorted(set(entries)) == entries
    assert [entry.second for entry in entries] == [0, 0, 0, 0, 1]


@given(st.text())
def test_key_hashes_fit_a_database_column(key: str) -> None:
    assert 0 <= key_hash(key) < 1 << 63


# Names


@pytest.mark.parametrize(
    "name",
    [
        "1700000000250-0000000000000007-00000000000000ff.msg.tmp",
        "1700000000250-0000000000000007-00000000000000ff",
        "1700000000250-0000000000000007-00000000000000ff.msg\n",
        "1700000000250-0000000000000007-00000000000000FF.msg",
        "1700000000250-000000000000007-00000000000000ff.msg",
        "1700000000250-00000000000000007-00000000000000ff.msg",
        "1700000000250-0000000000000007-ff.msg",
        "01700000000250-0000000000000007-00000000000000ff.msg",
        "-1700000000250-0000000000000007-00000000000000ff.msg",
        "١٧٠٠٠٠٠٠٠٠٢٥٠-0000000000000007-00000000000000ff.msg",
        "1700000000250-٠000000000000007-00000000000000ff.msg",
        "1000000000000000-0000000000000007-00000000000000ff.msg",
        "1700000000250-8000000000000000-00000000000000ff.msg",
        "1700000000250-0000000000000007-8000000000000000.msg",
        "copy of 1700000000250-0000000000000007-00000000000000ff.msg",
        "",
    ],
)
def test_foreign_names_are_no_entries(name: str) -> None:
    assert parse_name(name) is None


def test_the_name_of_an_entry() -> None:
    name = "1700000000250-0000000000000007-00000000000000ff.msg"
    assert parse_name(name) == Entry(1_700_000_000_250, 7, 255)
    assert Entry(1_700_000_000_250, 7, 255).name == name


@pytest.mark.parametrize(
    "name", ["", "00", "01", "-1", "+1", "1_0", "1.0", " 1", "1\n", "١", "²", "1e3", "x"]
)
def test_foreign_names_are_no_seconds(name: str) -> None:
    assert parse_second(name) is None


@pytest.mark.parametrize("second", [0, 9, 1_700_000_000, 10**250])
def test_the_name_of_a_second(second: int) -> None:
    assert parse_second(str(second)) == second


# No other files can be read


def test_every_changed_byte_is_detected() -> None:
    for position in range(len(SMALL)):
        for change in range(1, 256):
            changed = bytearray(SMALL)
            changed[position] ^= change
            with pytest.raises(DamagedFileError):
                decode(bytes(changed))


def test_every_truncation_is_detected() -> None:
    first_line = SMALL.index(b"\n")
    for length in range(len(SMALL)):
        kind = damage(SMALL[:length]).kind
        assert kind == ("torn" if length < first_line else "checksum"), length


@pytest.mark.parametrize("added", [b"\n", b"\0", SMALL])
def test_appended_bytes_are_detected(added: bytes) -> None:
    assert damage(SMALL + added).kind == "checksum"


def test_zeros_left_by_a_power_failure_count_as_torn() -> None:
    assert damage(bytes(len(SMALL))).kind == "torn"


@pytest.mark.parametrize("content", [b"hello", b"mocketmq-delaye", b"mocketmq-delaying 1", b"\n" + SMALL])
def test_other_first_bytes_are_another_protocol(content: bytes) -> None:
    assert damage(content).kind == ("torn" if SMALL.startswith(content) else "stray")


@pytest.mark.parametrize(
    "content",
    [
        with_checksum(b"whatever it is", version=2),
        with_checksum(b"whatever it is", version=0),
        b"mocketmq-delayed 2 blake3 00 of another shape\n",
        b"mocketmq-delayed 10\n",
    ],
)
def test_files_of_other_versions_are_distinguished(content: bytes) -> None:
    error = damage(content)
    assert error.kind == "version"
    assert str(error).endswith("reads version 1")


def header_line(**changed: object) -> bytes:
    fields = json.loads(SMALL.split(b"\n", 2)[1]) | changed
    return json.dumps({name: value for name, value in fields.items() if value is not ...}).encode()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"", "truncated"),
        (b"[]", "object"),
        (b"{}", "number"),
        (b'{"number": 1', "truncated"),
        (b'{"number": "\xff"}', "cannot be read"),
        (header_line(topic=...), "topic"),
        (header_line(topic=7), "topic"),
        (header_line(properties={"a": 1}), "properties"),
        (header_line(priority=1), "priority"),
        (header_line(size="3"), "size"),
        (header_line(number=-1), "number"),
        (header_line(number=1 << 63), "number"),
        (header_line(due_us=-1_000), "due"),
        (header_line(due_us=10**18), "due"),
        (header_line(due_us=10**30), "due"),
    ],
)
def test_a_malformed_header_is_refused(line: bytes, says: str) -> None:
    error = damage(with_checksum(line + b"\na\nb"))
    assert error.kind == "header"
    assert says in str(error)


@pytest.mark.parametrize("size", [-1, 0, 2, 4])
def test_body_of_a_wrong_size_is_refused(size: int) -> None:
    error = damage(with_checksum(header_line(size=size) + b"\na\nb"))
    assert (error.kind, str(error)) == ("size", f"the body is 3 bytes long, but the header declares {size}")


# Without this program


def run(*command: str, stdin: bytes = b"") -> bytes:
    return subprocess.run(command, input=stdin, capture_output=True, check=True, timeout=HANGING_S).stdout


def test_a_file_can_be_read_and_checked_with_standard_tools(tmp_path: Path) -> None:
    file = made(body=b"first\nsecond\xff\0", topic="a-topic", properties={"KEYS": "é\nb"})
    path = file.put(tmp_path)
    first = run("sed", "-n", "1p", str(path)).split()
    assert run("sha256sum", stdin=run("tail", "-n", "+2", str(path))).split()[0] == first[3]
    header = json.loads(run("sed", "-n", "2p", str(path)))
    assert (header["topic"], header["properties"]) == ("a-topic", {"KEYS": "é\nb"})
    assert (header["due_us"], header["size"]) == (file.header.due_us, len(file.body))
    assert run("tail", "-n", "+3", str(path)) == file.body


def test_a_file_can_be_made_with_standard_tools() -> None:
    rest = header_line(topic="by-hand") + b"\na\nb"
    digest = run("sha256sum", stdin=rest).split()[0]
    file = decode(b"mocketmq-delayed 1 sha256 " + digest + b"\n" + rest)
    assert isinstance(file, DelayedFile)
    assert (file.header.topic, file.body) == ("by-hand", b"a\nb")
