"""A delay directory is copied back or elsewhere: each valid message is delivered exactly once."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.message.message_id import key_hash
from tests.crash.delayed import HOUR_MS, HOUR_US, come, keep, timed_of
from tests.crash.survivor import delayed_files
from tests.support.brokers import S, running_broker

Copy = Callable[[Path, Path], object]


def copy_anew(source: Path, target: Path) -> None:
    for path in source.rglob("*.msg"):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(path.read_bytes())


COPIES: dict[str, Copy] = {
    "with all times": lambda source, target: shutil.copytree(source, target, dirs_exist_ok=True),
    "as new files": copy_anew,
}


async def make_backup(running: Broker, data: Path) -> Path:
    """Back up six pending messages, then deliver three of them and cancel one."""
    await keep(running, "one", 1_000)
    await keep(running, "two", 1_500)
    for message_id in ("forced", "cancelled", "later", "missing"):
        await keep(running, message_id, HOUR_MS + 1_500)
    backup = data.parent / "backup"
    shutil.copytree(data / "delay", backup)
    assert len([*backup.rglob("*.msg")]) == 6
    await running.pending.deliver_now("forced")
    await running.pending.cancel("cancelled")
    assert await come(running, 2 * S) == ["forced", "one", "two"]
    return backup


async def judge_backup(running: Broker, data: Path) -> None:
    assert sorted(m.message.unique_key for m in await running.pending.list()) == [
        "later",
        "missing",
    ]
    assert running.pending.count == 2
    assert await come(running, 2 * HOUR_US) == ["forced", "one", "two", "later", "missing"]
    state = timed_of(running).file_figures()
    assert (state.repeats, state.quarantined, state.disk_bytes) == (4, 0, 0)
    assert timed_of(running).pending == 0
    assert delayed_files(data) == []


def lose(running: Broker, data: Path, message_id: str) -> None:
    """Remove the file of a message."""
    digest = key_hash(message_id)
    [entry] = timed_of(running).store.with_key(digest)
    (data / "delay" / str(entry.second) / entry.name).unlink()


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
async def test_backup_copied_back_before_the_start(tmp_path: Path, copy: Copy) -> None:
    data = tmp_path / "data"
    async with running_broker(data) as running:
        backup = await make_backup(running, data)
        lose(running, data, "missing")
    copy(backup, data / "delay")
    async with running_broker(data) as running:
        # The timer removes files of settled messages when they fall due.
        assert await come(running) == ["forced", "one", "two"]
        await judge_backup(running, data)
    copy(backup, data / "delay")
    async with running_broker(data) as running:
        assert await come(running, HOUR_US) == ["forced", "one", "two", "later", "missing"]
        assert (timed_of(running).file_figures().repeats, delayed_files(data)) == (6, [])


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
async def test_backup_copied_back_while_the_broker_runs(
    tmp_path: Path, copy: Copy, first_turn: asyncio.Event
) -> None:
    data = tmp_path / "data"
    async with running_broker(data) as running:
        await first_turn.wait()
        backup = await make_backup(running, data)
        await timed_of(running).tidy()  # from now on only later changes are examined
        lose(running, data, "missing")
        copy(backup, data / "delay")
        await timed_of(running).tidy()
        await judge_backup(running, data)
        copy(backup, data / "delay")
        await timed_of(running).tidy()
        assert await come(running, HOUR_US) == ["forced", "one", "two", "later", "missing"]
        assert (timed_of(running).file_figures().repeats, delayed_files(data)) == (10, [])


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
async def test_lost_file_restored_after_its_due_time_is_delivered(
    tmp_path: Path, copy: Copy, first_turn: asyncio.Event
) -> None:
    data = tmp_path / "data"
    async with running_broker(data) as running:
        await first_turn.wait()
        backup = await make_backup(running, data)
        lose(running, data, "missing")
        assert await come(running, HOUR_US) == ["forced", "one", "two", "later"]
        assert timed_of(running).file_figures().put_aside == {"missing": 1}
        await timed_of(running).tidy()
        copy(backup, data / "delay")
        await timed_of(running).tidy()
        assert await come(running) == ["forced", "one", "two", "later", "missing"]
        assert delayed_files(data) == []


async def test_data_directory_copied_and_started_elsewhere(tmp_path: Path) -> None:
    """Both brokers deliver the messages pending at the backup, and no messages delivered before it."""
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    async with running_broker(data) as running:
        await make_backup(running, data)
    shutil.copytree(data, elsewhere)
    for place in (data, elsewhere):
        async with running_broker(place) as running:
            await keep(running, place.name, 3 * HOUR_MS)
            found = await come(running, 2 * HOUR_US)
            assert found == ["forced", "one", "two", "later", "missing"]
    # Pending messages of one can be moved to the other.
    shutil.copytree(elsewhere / "delay", data / "delay", dirs_exist_ok=True)
    async with running_broker(data) as running:
        found = await come(running, 2 * HOUR_US)
        assert found == ["forced", "one", "two", "later", "missing", "data", "elsewhere"]
        assert timed_of(running).file_figures().repeats == 0
