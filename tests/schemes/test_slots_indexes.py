"""``mocketmq delayed`` on a folder of the scheme ``slots`` with missing or damaged indexes."""

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
    """Return an open store in which all messages but the first are pending, and the path of its index."""
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
    "an item": (lambda index: change(index, ITEMS_AT + 60, b"?"), "it is damaged"),
    "the table": (lambda index: change(index, 64, bytes(4 * 36_000)), "it is damaged"),
    "the header": (lambda index: change(index, 20, b"?"), "it is damaged"),
    "truncated in the table": (lambda index: os.truncate(index, 99_999), "it is damaged"),
    "truncated in an item": (
        lambda index: os.truncate(index, ITEMS_AT + 3 * 48 + 5),
        "it does not list all records of the data",
    ),
}


def older(data: Path) -> Path:
    """Return an intact index that lists only the first two messages."""
    store = SlotStore(data / "slots")
    for message in MESSAGES[:2]:
        store.write(message.entry, message.content)
    [index] = (data / "slots" / "index").iterdir()
    return index


def assert_named(data: Path, index: Path, reason: str) -> None:
    report = answer("verify", "--dir", data, code=6)
    [problem] = report["problems"]
    assert (problem["file"], problem["kind"]) == (f"index/{index.name}", "index")
    assert problem["reason"] == f"{reason}; the broker rebuilds it from the data"
    assert (report["is_good"], report["messages"]) == (False, 4)


@pytest.mark.parametrize("damage", DAMAGES)
def test_verify_names_a_damaged_index_and_reads_go_on(damage: str, tmp_path: Path) -> None:
    _, index = filled(tmp_path)
    act, reason = DAMAGES[damage]
    act(index)
    assert_named(tmp_path, index, reason)
    page = answer("ls", "--dir", tmp_path)
    assert [each["message_id"] for each in page["messages"]] == ["M1", "M2", "M3", "M4"]
    assert page["problems"] == []
    assert answer("cat", "--dir", tmp_path, "M3")["body"] == "hello"
    assert mocketmq("cat", "--dir", tmp_path, "M0").code == 4, "done with"
    done = answer("import", "--data", tmp_path, "--timed-scheme", "wheel", tmp_path)
    assert (done["imported"], done["problems"]) == (4, [])
    assert answer("verify", "--dir", tmp_path)["messages"] == 4


def test_verify_names_an_older_copy(tmp_path: Path) -> None:
    _, index = filled(tmp_path / "one")
    shutil.copy(older(tmp_path / "other"), index)
    assert_named(tmp_path / "one", index, "it does not list all records of the data")


def test_start_repairs_indexes_named_by_verify(tmp_path: Path) -> None:
    store, index = filled(tmp_path)
    index.unlink()
    answer("verify", "--dir", tmp_path, code=6)
    again = SlotStore(store.root)
    report = answer("verify", "--dir", tmp_path)
    assert (report["is_good"], report["messages"], again.count) == (True, 4, 4)


def test_verify_ignores_an_index_behind_its_data(tmp_path: Path) -> None:
    """The last record has no item yet. A start adds the item, and a running broker adds it at once."""
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
    [problem] = answer("verify", "--dir", tmp_path / "slots", code=6)["problems"]
    assert (problem["file"], problem["kind"]) == (f"data/{data.name}", "missing")
    assert "lists 4 pending messages" in problem["reason"]
    moved.rename(data)
    store.forget([message.entry for message in MESSAGES])
    data.unlink()
    assert answer("verify", "--dir", tmp_path / "slots")["is_good"]


async def test_a_running_broker_is_not_mistaken_for_damage(tmp_path: Path) -> None:
    async with running_broker(tmp_path, timed_scheme="slots") as broker:
        for number in range(30):
            await send_in(broker, 1_000 + number, str(number))
            report = answer("verify", "--dir", tmp_path)
            assert report["problems"] == []
            if number % 10 == 9:
                await broker.mover.advance(2 * S)
