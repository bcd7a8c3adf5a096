"""Starting and stopping: in order, repeatedly, with an exclusive directory, and never partially."""

import asyncio
import logging
import os
from pathlib import Path

import msgspec
import pytest

from mocketmq.app import running_emulator
from mocketmq.errors import SettingError, StoppingError, StoreLockedError, StoreUnreadableError
from mocketmq.open_ports import OpenPorts
from mocketmq.settings import Settings
from mocketmq.store.database import FILE_NAME
from mocketmq.store.lock import LOCK_FILE
from tests.support.brokers import FREE_PORTS, S, bodies, receive, running_broker, send, visible


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


async def test_acknowledged_messages_survive_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        sent = [(await send(broker, str(n), tag="A", KEYS=f"k{n}")).stored for n in range(10)]
        parked = (await send(broker, "later", level=18)).stored
    async with running_broker(tmp_path) as broker:
        assert await visible(broker) == sent
        assert [p.message for p in await broker.pending.list()] == [parked]
        assert (await send(broker)).stored.log_offset == parked.log_offset + 1


async def test_sends_during_a_stop_are_stored_or_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker, "first")
        sends = [asyncio.create_task(send(broker, str(n))) for n in range(100)]
        await asyncio.wait(sends, return_when=asyncio.FIRST_COMPLETED)
    outcomes = await asyncio.gather(*sends, return_exceptions=True)
    refused = [error for error in outcomes if isinstance(error, BaseException)]
    assert all(isinstance(error, StoppingError) for error in refused)
    async with running_broker(tmp_path) as broker:
        assert len(await visible(broker)) == 1 + 100 - len(refused)


async def test_stop_ends_waiting_receives(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        receiver = asyncio.create_task(receive(broker, wait_s=60))
        await send(broker, topic="other")
    assert await receiver == []


async def test_stopped_broker_stores_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker)
    with pytest.raises(StoppingError):
        await send(broker)


async def test_a_stop_leaves_no_task_and_no_write_ahead_log(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    async with running_broker(tmp_path) as broker:
        await send(broker, level=1)
        assert (tmp_path / f"{FILE_NAME}-wal").exists()
    assert asyncio.all_tasks() == before
    assert names(tmp_path) == ["delay", FILE_NAME, LOCK_FILE]


async def test_background_tasks_run_until_the_end(tmp_path: Path) -> None:
    async with running_emulator(Settings(data=str(tmp_path), http_port=0, remoting=False)) as emulator:
        assert {task.get_name() for task in emulator.broker.tasks} >= {"writer", "timer"}
        assert not any(task.done() for task in emulator.broker.tasks)
    assert all(task.done() for task in emulator.broker.tasks)


async def test_second_broker_on_same_directory_is_refused_with_owner_pid(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        with pytest.raises(StoreLockedError, match=f"pid {os.getpid()}") as refused:
            async with running_broker(tmp_path):
                pass
        assert refused.value.pid == os.getpid()
        await send(broker)
    async with running_broker(tmp_path) as broker:
        assert len(await visible(broker)) == 1


async def test_memory_brokers_share_no_data_and_leave_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with running_broker() as one, running_broker() as two:
        await send(one, "one", level=1)
        await send(two, "two")
        await one.mover.advance(1 * S)
        assert (bodies(await visible(one)), bodies(await visible(two))) == (["one"], ["two"])
    async with running_broker() as three:
        assert three.registry.topics.find_topic("orders") is None
    assert names(tmp_path) == []


async def test_bad_level_table_stops_the_start_before_any_file_is_made(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="number 2, '5x'"):
        async with running_broker(tmp_path / "new", levels="1s 5x"):
            pass
    assert names(tmp_path) == []


async def test_failed_start_closes_everything(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"this is not a database " * 100)
    before = asyncio.all_tasks()
    for _ in range(2):  # the lock is free again
        with pytest.raises(StoreUnreadableError):
            async with running_broker(tmp_path):
                pass
    assert asyncio.all_tasks() == before


async def test_a_quiet_broker_logs_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with running_broker(tmp_path) as broker:
            await send(broker, level=1)
            await broker.mover.advance(1 * S)
            await receive(broker)
    assert caplog.text == ""


async def test_ready_file_exists_while_the_broker_is_ready(tmp_path: Path) -> None:
    file = tmp_path / "broker.json"
    file.write_text("from a broker that was killed")
    settings = Settings(data=":memory:", ready_file=str(file), **FREE_PORTS)
    async with running_emulator(settings) as emulator:
        assert msgspec.json.decode(file.read_bytes(), type=OpenPorts) == emulator.doors
        assert names(tmp_path) == ["broker.json"]
    assert names(tmp_path) == []


async def test_a_broker_whose_ready_file_exists_has_set_its_signal_handlers(tmp_path: Path) -> None:
    file = tmp_path / "broker.json"
    seen: list[bool] = []
    settings = Settings(data=":memory:", ready_file=str(file), **FREE_PORTS)
    async with running_emulator(settings, before_ready=lambda: seen.append(file.exists())):
        assert (seen, file.exists()) == ([False], True)


async def test_failed_start_leaves_no_ready_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.json"
    file.write_text("from a broker that was killed")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / FILE_NAME).write_text("no database")
    with pytest.raises(StoreUnreadableError):
        async with running_emulator(
            Settings(data=str(tmp_path / "data"), ready_file=str(file), **FREE_PORTS)
        ):
            pass
    assert not file.exists()


async def test_second_broker_on_same_directory_keeps_the_ready_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.json"
    settings = Settings(data=str(tmp_path / "data"), ready_file=str(file), **FREE_PORTS)
    async with running_emulator(settings):
        with pytest.raises(StoreLockedError):
            async with running_emulator(settings):
                pass
        assert file.exists()


@pytest.mark.parametrize("place", ["missing/broker.json", "."])
async def test_unwritable_ready_file_is_refused(tmp_path: Path, place: str) -> None:
    settings = Settings(data=":memory:", ready_file=str(tmp_path / place), **FREE_PORTS)
    with pytest.raises(SettingError, match=r"ready_file is .*; allowed: a file that can be written"):
        async with running_emulator(settings):
            pass
