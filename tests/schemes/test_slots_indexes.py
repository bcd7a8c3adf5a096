"""``mocketmq delayed`` on a folder of the scheme ``slots`` whose indexes are missing or damaged."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mocketmq_compat.delay.slots.slot_store import SlotStore
from tests.process.delay_files import answer, mocketmq
from tests.support.brokers import S, running_broker
from tests.support.delayed_files import DUE_MS, made
from tests.support.second_directories import send_in

ITEMS_AT = 144_064
MESSAGES = [made(f"M{number}", due_ms=DUE_MS + number, number=number) for number in range(5)]


def filled(data: Path) -> tuple[SlotStore, Path]:
    """A store that stays open, in which all but the first message wait; its index."""
    store = SlotStore(data / "slots")
    for message in MESSAGES:
        store.write(message.entry, message.content)
    store.forget([MESSAGES[0].entry])
    [index] = (data / "slots" / "index").iterdir()
    return store, index


def change(index: Path, offset: int, content: bytes) -> None:
    with index.open("r+b") as file:
        file.seek(offset)
        file.write(content)


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "removed": (Path.unlink, "it is missing"),
    "an item": (lambda index: change(index, ITEMS_AT + 60, b"?"), "it has changed"),
    "the table": (lambda index: change(index, 64, bytes(4 * 36_000)), "it has changed"),
    "the header": (lambda index: change(index, 20, b"?"), "it has changed"),
    "truncated in the table": (lambda index: os.truncate(index, 99_999), "it has changed"),
    "truncated in an item": (
        lambda index: os.truncate(index, ITEMS_AT + 3 * 48 + 5),
        "it does not name all records of the data",
    ),
}


def older(data: Path) -> Path:
    """An index that is whole, and names the first two messages alone."""
    store = SlotStore(data / "slots")
    for message in MESSAGES[:2]:
        store.write(message.entry, message.content)
    [index] = (data / "slots" / "index").iterdir()
    return index


def assert_named(data: Path, index: Path, reason: str) -> None:
    report = answer("verify", "--dir", data, code=6)
    [trouble] = report["troubles"]
    assert (trouble["file"], trouble["kind"]) == (f"index/{index.name}", "index")
    assert trouble["reason"] == f"{reason}; the broker makes it again from the data"
    assert (report["is_good"], report["messages"]) == (False, 4)


@pytest.mark.parametrize("damage", DAMAGES)
def test_verify_names_it_and_all_else_reads_the_data(damage: str, tmp_path: Path) -> None:
    _, index = filled(tmp_path)
    act, reason = DAMAGES[damage]
    act(index)
    assert_named(tmp_path, index, reason)
    page = answer("ls", "--dir", tmp_path)
    assert [each["message_id"] for each in page["messages"]] == ["M1", "M2", "M3", "M4"]
    assert page["troubles"] == []
    assert answer("cat", "--dir", tmp_path, "M3")["body"] == "hello"
    assert mocketmq("cat", "--dir", tmp_path, "M0").code == 4, "done with"
    done = answer("import", "--data", tmp_path, "--timed-scheme", "wheel", tmp_path)
    assert (done["imported"], done["troubles"]) == (4, [])
    assert answer("verify", "--dir", tmp_path)["messages"] == 4


def test_verify_names_an_older_copy(tmp_path: Path) -> None:
    _, index = filled(tmp_path / "one")
    shutil.copy(older(tmp_path / "other"), index)
    assert_named(tmp_path / "one", index, "it does not name all records of the data")


def test_a_start_mends_what_verify_names(tmp_path: Path) -> None:
    store, index = filled(tmp_path)
    index.unlink()
    answer("verify", "--dir", tmp_path, code=6)
    again = SlotStore(store.root)
    report = answer("verify", "--dir", tmp_path)
    assert (report["is_good"], report["messages"], again.count) == (True, 4, 4)


def test_verify_says_nothing_of_an_index_that_a_kill_left_behind_its_data(tmp_path: Path) -> None:
    """The last record has no item yet: the start deals with it, and a running broker does at once."""
    _, index = filled(tmp_path)
    os.truncate(index, ITEMS_AT + 4 * 48)
    slot = DUE_MS % 3_600_000 // 100
    change(index, 64 + 4 * slot, b"\4")
    report = answer("verify", "--dir", tmp_path)
    assert (report["is_good"], report["messages"]) == (True, 4)


def test_indexes_without_data_are_a_loss_only_if_something_waited(tmp_path: Path) -> None:
    store, _ = filled(tmp_path)
    [data] = (tmp_path / "slots" / "data").iterdir()
    moved = data.rename(tmp_path / "moved")
    [trouble] = answer("verify", "--dir", tmp_path / "slots", code=6)["troubles"]
    assert (trouble["file"], trouble["kind"]) == (f"data/{data.name}", "missing")
    assert "4 messages in it that wait" in trouble["reason"]
    moved.rename(data)
    store.forget([message.entry for message in MESSAGES])
    data.unlink()
    assert answer("verify", "--dir", tmp_path / "slots")["is_good"]


async def test_a_broker_that_adds_and_delivers_meanwhile_is_no_damage(tmp_path: Path) -> None:
    async with running_broker(tmp_path, timed_scheme="slots") as broker:
        for number in range(30):
            await send_in(broker, 1_000 + number, str(number))
            report = answer("verify", "--dir", tmp_path)
            assert report["troubles"] == []
            if number % 10 == 9:
                await broker.mover.advance(2 * S)
