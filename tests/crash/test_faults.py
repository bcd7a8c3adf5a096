"""A failing disk and damaged files: a clear error, no loss of what was acknowledged, no restart."""

import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mocketmq import BrokerError, Client
from mocketmq.cli.exit_codes import Exit
from mocketmq.store.database import FILE_NAME
from tests.crash.disks import Disk
from tests.crash.faults import (
    DELAYS_S,
    FRAME_BYTES,
    GROUP,
    TOPIC,
    WAL,
    WITHOUT_ROOTS_RIGHTS,
    WITHOUT_WRITES,
    assert_refused_by_the_store,
    broker,
    contents,
    delivered,
    keep_due_waiting,
    read_only,
    refusal_to_start,
    send,
    stop_a_move,
)

# A disk that is full for a while


async def test_full_disk_refuses_sends_until_it_has_room(disk: Disk) -> None:
    async with broker(disk.directory) as (process, client):
        await send(client, "before")
        disk.fill(process)
        with pytest.raises(BrokerError) as error:
            await send(client, "meanwhile")
        assert_refused_by_the_store(error.value)
        assert await delivered(client) == ["before"]
        disk.free(process)
        await send(client, "after")
        assert await delivered(client) == ["before", "after"]
        process.kill()
        await process.wait()
    async with broker(disk.directory) as (_, client):
        assert await delivered(client) == ["before", "after"]


async def test_full_disk_keeps_consumers_waiting(disk: Disk) -> None:
    async with broker(disk.directory, "--clock", "manual") as (process, client):
        await send(client, "a", "b", "c")
        [taken] = await client.receive(TOPIC, group=GROUP)
        disk.fill(process)
        for request in (
            client.receive(TOPIC, group=GROUP),
            client.acknowledge(GROUP, [taken]),
            client.give_back(GROUP, [taken]),
            client.extend(GROUP, [taken], "1h"),
        ):
            with pytest.raises(BrokerError) as error:
                await request
            assert_refused_by_the_store(error.value)
        disk.free(process)
        assert (await client.acknowledge(GROUP, [taken]))["settled"] == [taken["receipt"]]
        messages = await client.receive(TOPIC, group=GROUP, max_messages=10)
        assert [(message["message_id"], message["times"]) for message in messages] == [("b", 1), ("c", 1)]


async def test_due_messages_wait_for_room_on_the_disk(disk: Disk) -> None:
    async def park(client: Client, level: int, message_ids: list[str]) -> None:
        await send(client, *message_ids, level=level)

    levels = " ".join(f"{delay_s}s" for delay_s in DELAYS_S)
    await keep_due_waiting(disk, park, lambda levels, level: levels["levels"][level - 1], "--levels", levels)


@pytest.mark.parametrize("then", ["go on", "kill"])
async def test_full_disk_stops_a_move_of_the_clock_where_it_is(disk: Disk, then: str) -> None:
    async def park(client: Client, minute: int, message_ids: list[str]) -> None:
        await send(client, *message_ids, level=minute, size=100)

    await stop_a_move(disk, then, park, 3_000, "--levels", "1m 2m 3m", room=500_000)


@pytest.mark.parametrize(("profile", "code"), [("exact", Exit.DONE), ("rocketmq4", Exit.NOT_STARTED)])
async def test_stop_on_a_full_disk(disk: Disk, profile: str, code: Exit) -> None:
    """The broker stops. Profile ``rocketmq4`` then saves its offsets, or reports the failure and repeats."""
    settings = ("--clock", "manual", "--profile", profile, "--levels", "1s")
    async with broker(disk.directory, *settings) as (process, client):
        await send(client, "a", level=1)
        await client.advance("3s")
        disk.fill(process)
        process.terminate()
        assert await process.wait() == code
    # Refused background work logs a line of its own.
    said = [line for line in process.stderr.splitlines() if "will be tried again" not in line]
    assert any("cannot be written" in line for line in said) == bool(code)


async def test_start_on_a_full_disk(tmp_path: Path) -> None:
    async with broker(tmp_path) as (_, client):
        await send(client, "a")
    stderr = await refusal_to_start(tmp_path, wrapper=WITHOUT_WRITES)
    assert str(tmp_path) in stderr
    async with broker(tmp_path) as (_, client):
        assert await delivered(client) == ["a"]


# A directory that cannot be used


async def test_read_only_directory(tmp_path: Path) -> None:
    with read_only(tmp_path):
        stderr = await refusal_to_start(tmp_path, wrapper=WITHOUT_ROOTS_RIGHTS)
    assert f"cannot write to the data directory {tmp_path}" in stderr
    assert contents(tmp_path) == {}
    async with broker(tmp_path, wrapper=WITHOUT_ROOTS_RIGHTS) as (_, client):
        await send(client, "a")


async def test_directory_becomes_read_only(tmp_path: Path) -> None:
    async with broker(tmp_path) as (_, client):
        await send(client, "a")
    with read_only(tmp_path):
        stderr = await refusal_to_start(tmp_path, wrapper=WITHOUT_ROOTS_RIGHTS)
    assert str(tmp_path / FILE_NAME) in stderr
    async with broker(tmp_path, wrapper=WITHOUT_ROOTS_RIGHTS) as (_, client):
        assert await delivered(client) == ["a"]


async def test_directory_of_another_broker(tmp_path: Path) -> None:
    async with broker(tmp_path) as (owner, client):
        assert f"pid {owner.pid}" in await refusal_to_start(tmp_path)
        await send(client, "a")
        owner.kill()
        await owner.wait()
    async with broker(tmp_path) as (_, client):
        assert await delivered(client) == ["a"]


async def test_database_locked_by_another_program(tmp_path: Path) -> None:
    async with broker(tmp_path) as (_, client):
        await send(client, "a")
        with closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(BrokerError, match="locked") as error:
                await send(client, "b")
            assert_refused_by_the_store(error.value)
        await send(client, "c")
        assert await delivered(client) == ["a", "c"]


# Files that were damaged while no broker ran


@pytest.fixture
async def killed(tmp_path: Path) -> Path:
    """The directory of a broker that was killed before any checkpoint: all data is in its log."""
    async with broker(tmp_path) as (process, client):
        for number in range(5):
            await send(client, f"m{number}")
        process.kill()
        assert await process.wait() == -signal.SIGKILL
    assert (tmp_path / WAL).stat().st_size > FRAME_BYTES
    return tmp_path


@pytest.fixture
async def stopped(killed: Path) -> Path:
    """The same after a clean stop: everything is in the database."""
    async with broker(killed):
        pass
    assert not (killed / WAL).exists()
    return killed


TORN = {
    "garbage": lambda log: log + b"garbage" * 1_000,
    "zeros": lambda log: log + bytes(2 * FRAME_BYTES),
    "half a frame": lambda log: log + log[-FRAME_BYTES : -FRAME_BYTES // 2],
    "a frame of an older log": lambda log: log + log[-FRAME_BYTES:-4088] + bytes(8) + log[-4088:],
    "a few bytes": lambda log: log + b"\x00\x01",
}


@pytest.mark.parametrize("tear", TORN.values(), ids=TORN)
async def test_torn_log(killed: Path, tear: Callable[[bytes], bytes]) -> None:
    log = killed / WAL
    log.write_bytes(tear(log.read_bytes()))
    for _ in range(2):
        async with broker(killed) as (process, client):
            assert await delivered(client) == [f"m{number}" for number in range(5)]
            process.kill()
            await process.wait()


@pytest.mark.parametrize("begun", [b"", b"7" * 20, bytes(5_000)], ids=["nothing", "a bit", "zeros"])
async def test_log_with_an_incomplete_header(stopped: Path, begun: bytes) -> None:
    (stopped / WAL).write_bytes(begun)
    async with broker(stopped) as (_, client):
        assert await delivered(client) == [f"m{number}" for number in range(5)]


async def assert_refused_and_left_alone(data: Path) -> None:
    before = contents(data)
    stderr = await refusal_to_start(data)
    assert str(data / FILE_NAME) in stderr
    assert "left as it is" in stderr
    assert contents(data) == before


@pytest.mark.parametrize(
    "damaged", [slice(0, 16), slice(0, 4096), slice(0, None)], ids=["name", "page", "file"]
)
async def test_unreadable_database(stopped: Path, damaged: slice) -> None:
    database = stopped / FILE_NAME
    data = bytearray(database.read_bytes())
    data[damaged] = b"x" * len(data[damaged])
    database.write_bytes(data)
    await assert_refused_and_left_alone(stopped)


@pytest.mark.parametrize("damaged", [slice(0, 32), slice(16, 17)], ids=["header", "salt"])
async def test_unreadable_log(killed: Path, damaged: slice) -> None:
    """SQLite treats such a log as empty, and would overwrite its data."""
    log = killed / WAL
    data = bytearray(log.read_bytes())
    data[damaged] = bytes(byte ^ 0xFF for byte in data[damaged])
    intact = log.read_bytes()
    log.write_bytes(data)
    await assert_refused_and_left_alone(killed)
    log.write_bytes(intact)
    async with broker(killed) as (_, client):
        assert await delivered(client) == [f"m{number}" for number in range(5)]
