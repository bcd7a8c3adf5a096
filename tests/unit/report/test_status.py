"""The status of a store, which is read every second while the store is followed."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mocketmq.clock import US_PER_MS
from mocketmq.errors import StoreUnavailableError, StoreUnreadableError
from mocketmq.store.lock import DirectoryLock
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.directories import delay_inspection
from mocketmq_compat.delay.directories.delay_directory import FOLDER
from mocketmq_report.live import status as module
from mocketmq_report.live.status import GRACE_US, NO_LEVEL, Backlog, broker_status
from tests.support.brokers import S
from tests.support.stores import START_US, MadeStore


@pytest.fixture
def store(tmp_path: Path) -> MadeStore:
    return MadeStore(tmp_path / "data")


def move(store: MadeStore, to_us: int, run: int = 1) -> None:
    store.put("clock_moves", run=run, wall_us=START_US, from_us=START_US, to_us=to_us)


def test_status_describes_the_last_run(tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "data", runs=2)
    found = broker_status(store.data)
    assert (found.store, found.first_us, found.run, found.moves) == (START_US, START_US, 2, 0)
    assert (found.version, found.profile, found.clock) == ("0.1.0", "exact", "manual")
    assert found.levels.delays_us == (S, 5 * S)
    assert (found.newest, found.waiting) == (-1, {})


def test_manual_clock_stands_at_its_last_move(store: MadeStore) -> None:
    assert broker_status(store.data).now_us == START_US
    move(store, START_US + 5 * S)
    move(store, START_US + 7 * S)
    found = broker_status(store.data)
    assert (found.now_us, found.moves) == (START_US + 7 * S, 2)


def test_moves_of_earlier_runs_are_ignored(tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "data", runs=2)
    move(store, START_US + 9 * 3600 * S, run=1)
    found = broker_status(store.data)
    assert (found.now_us, found.moves) == (START_US + 3600 * S, 0)


def test_clock_in_a_move_stands_at_the_latest_delivery(store: MadeStore) -> None:
    store.deliver(4, delivered_us=START_US + 6 * S)
    store.deliver(9, delivered_us=START_US + 8 * S)
    found = broker_status(store.data)
    assert (found.now_us, found.newest) == (START_US + 8 * S, 9)


def test_scaled_clock_runs_on(store: MadeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.run("UPDATE runs SET clock = 'x60'")
    monkeypatch.setattr(module, "wall_us", lambda: START_US + 2 * S)
    assert broker_status(store.data).now_us == START_US + 120 * S


def test_pending_messages_are_behind_the_delay_offset(store: MadeStore) -> None:
    for number in range(5):
        store.park(number, level=2, queue_offset=number, due_us=START_US + 60 * S)
    store.pass_to(2, 3)
    assert broker_status(store.data).waiting == {2: Backlog(2, 0)}
    store.pass_to(1, 0)
    store.run("UPDATE delay_offsets SET next_offset = 5 WHERE level = 2")
    assert broker_status(store.data).waiting == {}


def test_a_level_without_a_delay_offset_has_delivered_nothing(store: MadeStore) -> None:
    store.park(1, level=18, due_us=START_US + 60 * S)
    assert broker_status(store.data).waiting == {18: Backlog(1, 0)}


def test_cancelled_and_forced_messages_are_not_pending(store: MadeStore) -> None:
    for number in range(4):
        store.park(number, queue_offset=number, due_us=START_US - 10 * S)
    store.pass_to(1, 1)
    for number in (0, 1, 3):
        store.intervene(number)
    assert broker_status(store.data).waiting == {1: Backlog(1, 1)}


def test_message_is_overdue_a_second_after_its_due_time(store: MadeStore) -> None:
    for number, due_us in enumerate((START_US - 2 * S, START_US - GRACE_US, START_US - GRACE_US + 1)):
        store.park(number, queue_offset=number, due_us=due_us)
    assert broker_status(store.data).waiting == {1: Backlog(3, 2)}


def test_unsaved_deliveries_of_rocketmq4_are_not_pending(tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "data", runs=2)
    for number in range(6):
        store.park(number, queue_offset=number)
    store.deliver(10, parked_offset=1, run=2)
    store.deliver(11, parked_offset=3, run=2)
    store.deliver(12, parked_offset=4, run=1)  # before a kill, so it is delivered again
    store.deliver(13, parked_offset=5, run=2, forced=1)
    store.deliver(14, parked_offset=5, run=2, level=None)
    assert broker_status(store.data).waiting == {1: Backlog(2, 2)}


def test_files_are_known_by_their_names(store: MadeStore) -> None:
    second = START_US // S
    for due_ms in ((second - 1) * 1000, (second - 1) * 1000 + 1, (second + 5) * 1000):
        entry = Entry(due_ms, due_ms, 7)
        folder = store.data / FOLDER / str(entry.second)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / entry.name).touch()
    (folder / "foreign").touch()
    assert broker_status(store.data).waiting == {NO_LEVEL: Backlog(3, 1)}
    assert GRACE_US == 1000 * US_PER_MS


def test_reading_creates_no_directory(store: MadeStore) -> None:
    broker_status(store.data)
    assert [path.name for path in store.data.iterdir()] == ["mocketmq.db"]


def test_unreadable_folder_is_an_error(store: MadeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    (store.data / FOLDER).mkdir()

    def refuse(root: Path, *_: object) -> Iterator[None]:
        raise PermissionError(13, os.strerror(13), str(root))

    monkeypatch.setattr(delay_inspection, "list_files", refuse)
    with pytest.raises(StoreUnavailableError, match=r"/delay .*Permission denied$"):
        broker_status(store.data)


def test_a_store_without_a_run_is_an_error(tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "data", runs=0)
    with pytest.raises(StoreUnreadableError, match=r"mocketmq\.db "):
        broker_status(store.data)


def test_a_stopped_broker_is_seen_by_its_log(store: MadeStore) -> None:
    lock = DirectoryLock(store.data)
    assert not broker_status(store.data).is_running
    lock.close()


@pytest.mark.parametrize("is_held", [True, False])
def test_a_killed_broker_is_seen_by_its_lock(store: MadeStore, is_held: bool) -> None:
    lock = DirectoryLock(store.data)
    if not is_held:
        lock.close()
    Path(f"{store.database}-wal").touch()
    assert broker_status(store.data).is_running is is_held
    lock.close()
