"""The states of undelivered messages, as far as a store knows them."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import mocketmq_migrations
from mocketmq.broker.removal.retention import Retention
from mocketmq.errors import StoreUnavailableError
from mocketmq.faults.rule import FaultRule
from mocketmq.message.message import Message
from mocketmq.message.message_id import key_hash
from mocketmq.message.names import TIMER_TOPIC
from mocketmq.message.properties import DELAY, TIMER_DELAY_MS
from mocketmq.store.database import FILE_NAME
from mocketmq_compat.delay.directories.delay_directory import FOLDER
from mocketmq_compat.delay.quarantine import QUARANTINE
from mocketmq_report.ledger import undelivered
from mocketmq_report.ledger.store_reader import OLDEST_REVISION
from mocketmq_report.ledger.store_snapshot import take_snapshot
from tests.support.brokers import TOPIC, S, rows, running_broker, send
from tests.support.delayed_files import DUE_MS, made
from tests.support.second_directories import no_removal_left, send_in
from tests.support.stores import START_US, STORE, TIMED, MadeStore, leave_store
from tests.unit.store.test_migrations import STORIES

SECOND = "20261101T010000.000000Z"
"""Name of the second run of a made store."""


def found(data: Path) -> list[dict[str, Any]]:
    """Return every row without its nulls."""
    table = take_snapshot(data, lambda *_: None).undelivered
    return [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]


def states(data: Path) -> dict[str, str]:
    """Return the state of each message by id; checks that no id occurs twice."""
    rows_ = [(row["message_id"], row["state"]) for row in found(data)]
    assert len(dict(rows_)) == len(rows_)
    return dict(rows_)


async def test_messages_that_a_crash_lost_have_expired(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for body, level, seconds in (("kept", "4", 20), ("delivered", "1", 1), ("pending", "4", 1)):
            for properties in ({DELAY: level}, {TIMER_DELAY_MS: {"4": "30000", "1": "1000"}[level]}):
                await broker.sender.send(Message(TOPIC, body.encode(), properties))
            await broker.mover.advance(seconds * S)
        await broker.sender.send(Message(TOPIC, b"not delayed"))
        assert (await broker.broker_lives.crash("broker-a", 10 * S)).lost == 5
    ends = sorted((row["state"], row.get("fault", "")) for row in found(tmp_path))
    assert ends == [*4 * [("expired", "broker crash")], *2 * [("pending", "")]]


# By level


def test_a_message_waits_until_the_delay_offset_passes_it(tmp_path: Path) -> None:
    store = MadeStore(tmp_path, runs=2)
    store.park(4, level=2, reconsume_times=2)
    assert found(tmp_path) == [
        {
            "run": SECOND,
            "state": "pending",
            "message_id": "K4",
            "parked_offset": 4,
            "topic": "orders",
            "queue_id": 3,
            "scheme": "levels",
            "level": 2,
            "attempt": 3,
            "size": 5,
            "forced": False,
            "born_us": START_US,
            "stored_us": START_US + S,
            "due_us": START_US + 2 * S,
        }
    ]
    store.park(5, level=2, queue_offset=1)
    store.park(6, level=1, queue_offset=0)
    store.pass_to(2, 1)
    assert states(tmp_path) == {"K4": "lost", "K5": "pending", "K6": "pending"}
    store.deliver(9, 4)
    assert states(tmp_path) == {"K5": "pending", "K6": "pending"}


def test_level_without_a_delay_offset_starts_with_its_queue(tmp_path: Path) -> None:
    store = MadeStore(tmp_path)
    for number in range(3):
        store.park(number, queue_offset=number)
    store.run("UPDATE queues SET min_offset = 1 WHERE key = 1")
    assert states(tmp_path) == {"K0": "lost", "K1": "pending", "K2": "pending"}


def test_a_delivered_message_is_not_pending_if_the_delay_offset_lags(tmp_path: Path) -> None:
    store = MadeStore(tmp_path)
    for number in range(3):
        store.park(10 + number, queue_offset=number)
    store.pass_to(1, 0)
    store.deliver(20, 10)
    store.deliver(21, 11)
    assert states(tmp_path) == {"K12": "pending"}


def test_cancelled_and_forced_messages_are_neither_pending_nor_lost(tmp_path: Path) -> None:
    store = MadeStore(tmp_path, runs=2)
    for number in range(6):
        store.park(number, queue_offset=number)
    store.pass_to(1, 3)
    for number, kind in enumerate(["cancelled", "forced", "cancelled", "cancelled", "forced"]):
        store.intervene(number, kind, START_US + (number + 1) * 1000 * S)
    assert states(tmp_path) == {"K0": "cancelled", "K2": "cancelled", "K3": "cancelled", "K5": "pending"}
    runs = {row["message_id"]: row["run"] for row in found(tmp_path)}
    assert runs == {"K0": STORE, "K2": STORE, "K3": SECOND, "K5": SECOND}
    [cancelled] = [row for row in found(tmp_path) if row["message_id"] == "K2"]
    assert (cancelled["level"], cancelled["scheme"], cancelled["stored_us"]) == (1, "levels", START_US + S)


@pytest.mark.parametrize(
    ("instant_us", "run"),
    [
        (START_US - 1, STORE),
        (START_US, STORE),
        (START_US + 3600 * S - 1, STORE),
        (START_US + 3600 * S, SECOND),
        (START_US + 9000 * S, SECOND),
    ],
)
def test_a_message_belongs_to_the_run_in_which_it_was_cancelled(
    tmp_path: Path, instant_us: int, run: str
) -> None:
    store = MadeStore(tmp_path, runs=2)
    store.park(0)
    store.intervene(0, at_us=instant_us)
    assert [row["run"] for row in found(tmp_path)] == [run]


def test_a_message_is_not_lost_if_retention_may_have_removed_its_delivery(tmp_path: Path) -> None:
    store = MadeStore(tmp_path)
    due_us = START_US + 2 * S
    store.park(0)
    store.pass_to(1, 1)
    store.deliver(50, 49, delivered_us=due_us)
    store.deliver(60, 59, delivered_us=due_us + 1)
    assert states(tmp_path) == {"K0": "lost"}  # nothing was removed
    store.run("UPDATE queues SET min_offset = 1 WHERE topic = 'orders'")
    assert states(tmp_path) == {}
    store.run("UPDATE deliveries SET delivered_us = ? WHERE delivered_offset = 50", due_us - 1)
    assert states(tmp_path) == {"K0": "lost"}  # its delivery would be newer than an existing delivery
    store.run("DELETE FROM deliveries")
    assert states(tmp_path) == {}
    store.run("UPDATE delay_offsets SET next_offset = 0")
    assert states(tmp_path) == {"K0": "pending"}


def test_only_messages_in_the_queues_of_levels_are_parked(tmp_path: Path) -> None:
    store = MadeStore(tmp_path)
    store.park(1, level=TIMED, queue_offset=0)
    store.put("queues", key=30, topic="%HALF%orders", queue_id=0, min_offset=0, next_offset=0)
    store.park(2, level=30, due_us=None)
    assert found(tmp_path) == []


def test_deliveries_of_removed_messages_are_ignored(tmp_path: Path) -> None:
    store = MadeStore(tmp_path)
    for number in (10, 11, 12):
        store.park(number, queue_offset=number)
    for number, parked in enumerate([-1, 0, 9, 11, 13, 1 << 60]):
        store.deliver(20 + number, parked)
    store.intervene(5)
    store.intervene(99, "forced")
    assert states(tmp_path) == {"K10": "pending", "K12": "pending"}


def test_many_messages_are_selected_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undelivered, "_AT_ONCE", 3)
    store = MadeStore(tmp_path)
    for number in range(10):
        store.park(number, queue_offset=number)
    store.deliver(20, 4)
    assert list(states(tmp_path)) == [f"K{number}" for number in range(10) if number != 4]
    for number in range(10):
        made(f"F{number}", number=number + 1).put(tmp_path / FOLDER)
    for number in (0, 4, 9):
        store.settle(number + 1, key_hash(f"F{number}"), "delivered")
    files = [message_id for message_id in states(tmp_path) if message_id.startswith("F")]
    assert files == ["F1", "F2", "F3", "F5", "F6", "F7", "F8"]


# By due time


def test_deliverable_file_is_pending(tmp_path: Path) -> None:
    MadeStore(tmp_path, runs=2)
    file = made("AB01", b"12345678", due_ms=DUE_MS, number=77, reconsume_times=1)
    file.put(tmp_path / FOLDER)
    file.put(tmp_path / FOLDER, f"{file.entry.second}/foreign name")
    assert found(tmp_path) == [
        {
            "run": SECOND,
            "state": "pending",
            "message_id": "AB01",
            "parked_offset": 77,
            "topic": "orders",
            "queue_id": 2,
            "scheme": "directories",
            "attempt": 2,
            "size": 8,
            "forced": False,
            "born_us": (DUE_MS - 10_001) * 1000,
            "stored_us": (DUE_MS - 10_000) * 1000,
            "due_us": DUE_MS * 1000,
        }
    ]


def test_damaged_file_without_a_copy_is_lost_unless_settled(
    tmp_path: Path,
) -> None:
    store = MadeStore(tmp_path)
    root = tmp_path / FOLDER
    files = [made(f"K{number}", number=number) for number in range(1, 6)]
    for file in files:
        file.put(root).write_bytes(b"damage")
    files[1].put(root, f"{files[1].entry.second}/another name")
    store.settle(3, files[2].entry.key_hash, "delivered")
    store.settle(4, files[3].entry.key_hash + 1, "delivered")  # another message with that number
    (root / str(files[4].entry.second) / files[4].entry.name).unlink()
    (root / str(files[4].entry.second) / "not one of ours").write_bytes(b"damage")
    ids = {number: f"{number:016x}-{file.entry.key_hash:016x}" for number, file in enumerate(files, start=1)}
    assert states(tmp_path) == {"K2": "pending", ids[1]: "lost", ids[4]: "lost"}
    assert [row for row in found(tmp_path) if row["message_id"] == ids[1]] == [
        {
            "run": STORE,
            "state": "lost",
            "message_id": ids[1],
            "parked_offset": 1,
            "topic": "",
            "scheme": "directories",
            "forced": False,
            "due_us": DUE_MS * 1000,
        }
    ]


def test_quarantined_messages_are_lost_until_repaired(tmp_path: Path) -> None:
    MadeStore(tmp_path)
    root = tmp_path / FOLDER
    one, two = made("K1", number=1), made("K2", number=2)
    one.put(root, f"{QUARANTINE}/{one.entry.second}-{one.entry.name}")
    two.put(root, f"{QUARANTINE}/{two.entry.second}-{two.entry.name}.2")
    (root / QUARANTINE / "7-something").write_bytes(b"")
    (root / QUARANTINE / f"{one.entry.second}-{one.entry.name}.reason").write_text("torn")
    ids = [f"{number:016x}-{file.entry.key_hash:016x}" for number, file in ((1, one), (2, two))]
    assert states(tmp_path) == dict.fromkeys(ids, "lost")
    two.put(root)
    assert states(tmp_path) == {ids[0]: "lost", "K2": "pending"}


def test_unreadable_file_is_not_called_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MadeStore(tmp_path)
    file = made().put(tmp_path / FOLDER)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(file))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refuse)
        with pytest.raises(StoreUnavailableError, match=f"{file}: .*Permission denied"):
            found(tmp_path)
    monkeypatch.setattr("os.scandir", refuse)
    with pytest.raises(StoreUnavailableError, match=f"{file} .*Permission denied"):
        found(tmp_path)


def test_cleared_messages_are_expired_and_delivered_ones_are_not(tmp_path: Path) -> None:
    store = MadeStore(tmp_path, runs=2)
    for number, outcome in enumerate(["delivered", "forced", "cancelled", "cleared"], start=1):
        store.settle(number, 0xAB, outcome, 40 + number)
    assert found(tmp_path) == [
        {
            "run": SECOND,
            "state": "expired",
            "message_id": "0000000000000004-00000000000000ab",
            "parked_offset": 4,
            "topic": "",
            "scheme": "directories",
            "forced": False,
            "due_us": START_US + 5 * S,
        }
    ]


def test_pending_messages_belong_to_the_last_delivering_scheme(tmp_path: Path) -> None:
    store = MadeStore(tmp_path)
    made("K1").put(tmp_path / FOLDER)
    store.settle(8, 8, "cleared")
    store.deliver(30, 5, scheme="dongwo", level=None)
    store.deliver(31, 6, scheme="directories", level=None)
    for number, outcome, delivered in ((5, "forced", 30), (4, "delivered", 31), (6, "cancelled", 32)):
        store.settle(number, number, outcome, delivered)
    assert {row["scheme"] for row in found(tmp_path)} == {"dongwo"}


# Stores of real brokers


async def test_a_real_broker_leaves_undelivered_messages(tmp_path: Path) -> None:
    sent = await leave_store(tmp_path)
    bodies = {
        row["unique_key"]: row["body"].decode()
        for row in rows(tmp_path, "SELECT unique_key, body FROM messages")
    }
    undelivered_ = [
        (bodies.get(row["message_id"], "waiting timed"), row["state"], row.get("level"), row["attempt"])
        for row in found(tmp_path)
    ]
    assert sorted(undelivered_, key=str) == [
        ("again", "pending", 4, 3),
        ("cancelled level", "cancelled", 5, 1),
        ("cancelled timed", "cancelled", None, 1),
        ("waiting level", "pending", 18, 1),
        ("waiting timed", "pending", None, 1),
    ]
    assert all(sent[body] == state for body, state, *_ in undelivered_ if body != "again")
    [timed] = [row for row in found(tmp_path) if row["state"] == "cancelled" and "level" not in row]
    [known] = rows(tmp_path, "SELECT * FROM timed_messages WHERE outcome = 'cancelled'")
    assert (timed["parked_offset"], timed["due_us"]) == (known["number"], known["due_ms"] * 1000)
    assert timed["scheme"] == "directories"
    assert "stored_us" not in timed


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_held_messages_are_pending_and_name_their_fault(tmp_path: Path, is_cancelled: bool) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.faults.add_rule(FaultRule(do="hold", name="held back"))
        sent = {"levels": await send(broker, level=1), "directories": await send_in(broker, 1_000)}
        await broker.mover.advance(10 * S)
        if is_cancelled:
            for each in sent.values():
                await broker.pending.cancel(each.stored.unique_key)
    ids = {scheme: each.stored.unique_key for scheme, each in sent.items()}
    by_id = {row["message_id"]: row for row in found(tmp_path)}
    assert len(by_id) == 2
    for scheme, level in (("levels", 1), ("directories", None)):
        row = by_id[ids[scheme]]
        assert (row["scheme"], row.get("level")) == (scheme, level)
        expected = ("cancelled", None) if is_cancelled else ("pending", "held back")
        assert (row["state"], row.get("fault")) == expected


@pytest.mark.parametrize("revision", [OLDEST_REVISION, "0007", "0010", "0011", "0012", "0013"])
async def test_stores_of_earlier_versions_tell_the_same(tmp_path: Path, revision: str) -> None:
    """Each store has a pending message of a level; its cancelled message is changed to a timed message."""
    mocketmq_migrations.upgrade(str(tmp_path / FILE_NAME), revision)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.executescript((STORIES / f"{revision}.sql").read_text("utf-8"))
        connection.executescript(f"""
            DELETE FROM timed_messages;
            INSERT INTO queues (key, topic, queue_id, min_offset, next_offset)
             VALUES (18, '{TIMER_TOPIC}', 0, 0, 1);
            UPDATE messages SET queue_key = 18, queue_offset = 0 WHERE unique_key = 'U4';
            INSERT INTO timed_messages VALUES (77, 5, 1700000007900, 'cancelled', 14)""")
        if revision >= "0013":
            connection.execute("UPDATE messages SET kind = 'cancelled' WHERE unique_key = 'U4'")
        connection.commit()
    by_id = {row["message_id"]: row for row in found(tmp_path)}
    assert {name: (row["state"], row["scheme"], row.get("level")) for name, row in by_id.items()} == {
        "U4": ("cancelled", "directories", None),
        "U5": ("pending", "levels", 1),
    }
    assert (by_id["U4"]["parked_offset"], "stored_us" in by_id["U4"]) == (77, False)


async def test_a_topic_reset_cancels_messages_and_a_full_reset_expires_files(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker, level=5)
        await send_in(broker, 60_000)
        await broker.reset.topic("orders")
        await no_removal_left(broker)
    assert sorted(states(tmp_path).values()) == ["cancelled", "cancelled"]
    async with running_broker(tmp_path) as broker:
        await send(broker, level=5)
        await send_in(broker, 60_000)
        await broker.reset.all()
        await no_removal_left(broker)
    assert list(states(tmp_path).values()) == ["expired"]


async def test_a_killed_rocketmq4_still_counts_deliveries_after_its_saved_offset(tmp_path: Path) -> None:
    async with running_broker(tmp_path, profile="rocketmq4") as broker:
        await send(broker, level=1)
        await broker.mover.advance(3 * S)
        await send(broker, level=1)
        with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
            assert connection.execute("SELECT * FROM delay_offsets").fetchall() == []
            copy = tmp_path / "copy"
            copy.mkdir()
            with closing(sqlite3.connect(copy / FILE_NAME)) as target:
                connection.backup(target)  # the state after a kill
    assert list(states(copy).values()) == ["pending"]


async def test_half_messages_are_invisible_until_committed(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        level, timed, _ = [
            await broker.popped_halves.prepare(Message(TOPIC, b"half", dict([delay])), 60 * S)
            for delay in ((DELAY, "5"), (TIMER_DELAY_MS, "60000"), (DELAY, "5"))
        ]
        settled = await broker.popped_halves.commit(TOPIC, [level.handle, timed.handle])
        assert len(settled.done) == 2
    assert states(tmp_path) == {each.stored.unique_key: "pending" for each in (level, timed)}


async def test_messages_removed_by_retention_have_no_state(tmp_path: Path) -> None:
    async with running_broker(tmp_path, profile="rocketmq4") as broker:
        retention = Retention(
            broker.store, broker.registry, broker.consuming_groups, broker.schemes, age_us=0, max_bytes=1
        )
        sent = (await send(broker, level=1)).stored.unique_key
        cancelled = await send_in(broker, 60_000)
        await broker.pending.cancel(cancelled.stored.unique_key)
        await broker.mover.advance(2 * S)
        assert await retention.turn() == 2  # the record and the delivered message, but not the parked message
        assert states(tmp_path) == {sent: "pending"}  # after a kill, the broker would deliver it again
        await broker.mover.advance(10 * S)
        assert rows(tmp_path, "SELECT * FROM delay_offsets WHERE level = 1") == [
            {"level": 1, "next_offset": 1}
        ]
        assert states(tmp_path) == {}
