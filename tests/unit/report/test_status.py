"""The status of a store, which is read every second while it is followed."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mocketmq.clock import US_PER_MS
from mocketmq.errors import StoreUnavailableError, StoreUnreadableError
from mocketmq.store.lock import DirectoryLock
from mocketmq_compat.delay.delayed_file import Entry
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


def test_it_says_which_run_it_is(tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "data", runs=2)
    found = broker_status(store.data)
    assert (found.store, found.first_us, found.run, found.moves) == (START_US, START_US, 2, 0)
    assert (found.version, found.profile, found.clock) == ("0.1.0", "exact", "manual")
    assert found.levels.delays_us == (S, 5 * S)
    assert (found.newest, found.waiting) == (-1, {})


def test_a_manual_clock_is_where_it_was_moved_to(store: MadeStore) -> None:
    assert broker_status(store.data).now_us == START_US
    move(store, START_US + 5 * S)
    move(store, START_US + 7 * S)
    found = broker_status(store.data)
    assert (found.now_us, found.moves) == (START_US + 7 * S, 2)


def test_the_moves_of_an_earlier_run_do_not_count(tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "data", runs=2)
    move(store, START_US + 9 * 3600 * S, run=1)
    found = broker_status(store.data)
    assert (found.now_us, found.moves) == (START_US + 3600 * S, 0)


def test_during_a_move_it_is_as_late_as_the_latest_delivery(store: MadeStore) -> None:
    store.deliver(4, delivered_us=START_US + 6 * S)
    store.deliver(9, delivered_us=START_US + 8 * S)
    found = broker_status(store.data)
    assert (found.now_us, found.newest) == (START_US + 8 * S, 9)


def test_another_clock_runs_on(store: MadeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.run("UPDATE runs SET clock = 'x60'")
    monkeypatch.setattr(module, "wall_us", lambda: START_US + 2 * S)
    assert broker_status(store.data).now_us == START_US + 120 * S


def test_what_waits_is_behind_the_delay_offset(store: MadeStore) -> None:
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


def test_what_was_cancelled_or_forced_waits_no_more(store: MadeStore) -> None:
    for number in range(4):
        store.park(number, queue_offset=number, due_us=START_US - 10 * S)
    store.pass_to(1, 1)
    for number in (0, 1, 3):
        store.intervene(number)
    assert broker_status(store.data).waiting == {1: Backlog(1, 1)}


def test_it_is_overdue_a_second_after_it_was_due(store: MadeStore) -> None:
    for number, due_us in enumerate((START_US - 2 * S, START_US - GRACE_US, START_US - GRACE_US + 1)):
        store.park(number, queue_offset=number, due_us=due_us)
    assert broker_status(store.data).waiting == {1: Backlog(3, 2)}


def test_what_rocketmq4_has_not_saved_yet_does_not_wait(tmp_path: Path) -> None:
    store = MadeStore(tmp_path / "data", runs=2)
    for number in range(6):
        store.park(number, queue_offset=number)
    store.deliver(10, parked_offset=1, run=2)
    store.deliver(11, parked_offset=3, run=2)
    store.deliver(12, parked_offset=4, run=1)  # before a kill: this one is delivered again
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


def test_no_directory_is_made(store: MadeStore) -> None:
    broker_status(store.data)
    assert [path.name for path in store.data.iterdir()] == ["mocketmq.db"]


def test_files_that_cannot_be_listed_are_an_error(store: MadeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    (store.data / FOLDER).mkdir()

    def refuse(*_: object) -> Iterator[None]:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(module, "list_files", refuse)
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
