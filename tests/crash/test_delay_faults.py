"""A delay directory is full or fails: each valid message is delivered exactly once."""

import asyncio
import errno
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession

from mocketmq import BrokerError, Client
from mocketmq.client.answer import JsonObject
from mocketmq.errors import StoreUnavailableError
from mocketmq_compat.delay.delayed_file import Entry
from mocketmq_compat.delay.directories.delay_directory import DelayDirectory
from mocketmq_compat.delay.quarantine import QUARANTINE
from tests.crash.delayed import BLOCK, HOUR_MS, HOUR_US, come, keep, reasons, timed_of
from tests.crash.disks import Disk, write_limit
from tests.crash.faults import (
    DELAYS_S,
    TOPIC,
    WITHOUT_ROOTS_RIGHTS,
    assert_refused_by_the_store,
    broker,
    delivered,
    files_removed,
    keep_due_waiting,
    read_only,
    send,
    stop_a_move,
    wait_for_log,
)
from tests.crash.survivor import delayed_files
from tests.support.brokers import S, running_broker
from tests.support.delayed_files import DUE_MS, made

# A disk that is full for a while


async def test_batch_partly_without_room_is_refused_whole(disk: Disk) -> None:
    """Files of the batch are already written when the store refuses its other messages."""
    async with broker(disk.directory, "--clock", "manual") as (process, client):
        await send(client, "before")
        disk.fill(process, room=30_000)
        mixed: list[JsonObject] = [{"body": "b", "delay_ms": 1_000}, {"body": "b" * 100_000}]
        with pytest.raises(BrokerError) as error:
            await client.send_batch(TOPIC, mixed)
        assert_refused_by_the_store(error.value)
        assert (await client.delayed())["messages"] == []
        disk.free(process)
        assert (await client.advance("1m"))["fired"] == 0
        await files_removed(client)
    assert delayed_files(disk.directory) == []


async def test_due_files_wait_for_room_on_the_disk(disk: Disk) -> None:
    async def park(client: Client, number: int, message_ids: list[str]) -> None:
        await send(client, *message_ids, delay_ms=DELAYS_S[number - 1] * 1_000)

    await keep_due_waiting(disk, park, lambda levels, _: levels["timed"])


@pytest.mark.parametrize("then", ["go on", "kill"])
async def test_full_disk_stops_a_move_of_the_clock_where_it_is(tmp_path: Path, then: str) -> None:
    """Delivered files must not make room for more."""

    async def park(client: Client, minute: int, message_ids: list[str]) -> None:
        await send(client, *message_ids, delay_ms=minute * 60_000)

    with write_limit(tmp_path) as disk:
        await stop_a_move(disk, then, park, 1_200, room=1_200_000)
    assert delayed_files(disk.directory) == []


async def test_quarantined_files_do_not_count_for_the_quota(tmp_path: Path) -> None:
    file = made()
    file.put(tmp_path / "delay").write_bytes(file.content[:-1])
    made("stray").put(tmp_path / "delay", f"{file.entry.second}/torn").write_bytes(b"")
    async with running_broker(tmp_path, delay_quota_bytes=2 * BLOCK) as running:
        assert await come(running) == []
        assert timed_of(running).file_figures().disk_bytes == 0
        await keep(running, "a", 1_000)
        await keep(running, "b", 1_000)


# A disk that fails otherwise


@contextmanager
def failing(
    monkeypatch: pytest.MonkeyPatch, name: str, code: int, only: Callable[[Entry], bool] = lambda _: True
) -> Iterator[list[Entry]]:
    """Make a method of delay directories raise, and return the entries for which it did."""
    method = getattr(DelayDirectory, name)
    met: list[Entry] = []

    def fail(directory: DelayDirectory, entry: Entry, *more: object) -> object:
        if not isinstance(entry, Entry) or only(entry):
            met.append(entry)
            raise OSError(code, os.strerror(code))
        return method(directory, entry, *more)

    with monkeypatch.context() as patch:
        patch.setattr(DelayDirectory, name, fail)
        yield met


async def test_too_many_open_files_quarantine_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as running:
        await keep(running, "a", 1_000)
        with (
            failing(monkeypatch, "read", errno.EMFILE),
            pytest.raises(StoreUnavailableError, match="cannot use its files"),
        ):
            await come(running, S)
        assert await come(running, S) == ["a"]
        assert not timed_of(running).file_figures().put_aside


async def test_unreadable_file_does_not_stop_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker(tmp_path) as running:
        for message_id in ("a", "b", "c"):
            await keep(running, message_id, 1_000)
        second = sorted(timed_of(running).store.all())[1]
        with failing(monkeypatch, "read", errno.EIO, second.__eq__):
            assert await come(running, S) == ["a", "c"]
        assert timed_of(running).file_figures().put_aside == {"unreadable": 1}
    reason = f"the file cannot be read: {os.strerror(errno.EIO)}\n"
    assert reasons(tmp_path) == {f"{second.second}-{second.name}": reason}


# Files that cannot be removed (W5)


async def test_unremovable_file_is_delivered_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    first_turn: asyncio.Event,
) -> None:
    caplog.set_level(logging.WARNING)
    with ExitStack() as faults:
        tries = faults.enter_context(failing(monkeypatch, "remove_file", errno.EACCES))
        async with running_broker(tmp_path) as running:
            await first_turn.wait()
            for message_id in ("a", "b"):
                await keep(running, message_id, 1_000)
            for message_id in ("cancelled", "forced"):
                await keep(running, message_id, HOUR_MS)
            await running.pending.cancel("cancelled")
            await running.pending.deliver_now("forced")
            for _ in range(3):
                assert await come(running, S) == ["forced", "a", "b"]
            scheme = timed_of(running)
            assert (scheme.pending, scheme.first_due_us(), scheme.file_figures().unremoved) == (0, None, 4)
            assert len(tries) == caplog.text.count("cannot remove the file of settled message") == 4, (
                "it is not tried all the time"
            )
            await timed_of(running).tidy()
            assert await come(running, S) == ["forced", "a", "b"]
            assert (len(tries), timed_of(running).file_figures().unremoved) == (8, 4)
        assert len(delayed_files(tmp_path)) == 4
        async with running_broker(tmp_path) as running:
            assert await come(running) == ["forced", "a", "b"]
            scheme = timed_of(running)
            assert (scheme.pending, scheme.file_figures().unremoved, scheme.repeats) == (0, 4, 4)
            faults.close()
            await timed_of(running).tidy()
            assert await come(running, 2 * HOUR_US) == ["forced", "a", "b"]
            state = timed_of(running).file_figures()
            assert (state.unremoved, state.disk_bytes, state.repeats) == (0, 0, 4)
    assert delayed_files(tmp_path) == []


async def everything_of(client: Client) -> list[str]:
    queues = (await client.topic(TOPIC))["queues"]
    pages = [await client.browse(TOPIC, queue["queue_id"]) for queue in queues]
    return sorted(message["message_id"] for page in pages for message in page["messages"])


async def test_second_directory_becomes_read_only(tmp_path: Path) -> None:
    manual = ("--clock", "manual")
    async with broker(tmp_path, *manual) as (_, client):
        await send(client, "a", "b", delay_ms=1_000)
    [second] = (tmp_path / "delay").glob("[0-9]*")
    for repeats in (0, 2):
        with read_only(second):
            async with broker(tmp_path, *manual, wrapper=WITHOUT_ROOTS_RIGHTS) as (process, client):
                await client.advance("1h")
                assert await delivered(client) == ["a", "b"]
                await wait_for_log(process, client, ": Permission denied")
                levels = (await client.levels())["timed"]
                assert (levels["pending"], levels["unremoved"]) == (0, 2)
                async with ClientSession() as session, session.get(f"{process.url}/metrics") as response:
                    metrics = (await response.text()).splitlines()
                assert "mocketmq_unremoved_files 2.0" in metrics
                assert f"mocketmq_refused_repeats_total {repeats}.0" in metrics
    async with broker(tmp_path, *manual, wrapper=WITHOUT_ROOTS_RIGHTS) as (_, client):
        await client.advance("1h")
        assert await delivered(client) == ["a", "b"]
    assert [*(tmp_path / "delay").iterdir()] == []


async def test_read_only_delay_directory(tmp_path: Path) -> None:
    async with broker(tmp_path) as (_, client):
        await send(client, "before")
    with read_only(tmp_path / "delay"):
        async with broker(tmp_path, wrapper=WITHOUT_ROOTS_RIGHTS) as (_, client):
            with pytest.raises(BrokerError) as error:
                await send(client, "meanwhile", delay_ms=1)
            assert_refused_by_the_store(error.value, "a delayed message cannot be written: Permission denied")
            await send(client, "undelayed")
            (tmp_path / "delay").chmod(0o755)
            await send(client, "after", delay_ms=1)
            assert (await client.wait_delivered(TOPIC, 3, wait="30s"))["reached"]
            assert await delivered(client) == ["before", "undelayed", "after"]


async def test_read_only_directory_with_misplaced_files(tmp_path: Path) -> None:
    """The broker starts with a stray file, an empty directory, a torn file and a temporary file of a kill."""
    root, manual = tmp_path / "delay", ("--clock", "manual")
    first, *files = [made(f"m{number}", due_ms=DUE_MS + number * 1_000) for number in range(4)]
    first.put(root)
    files[0].put(root, f"{files[0].entry.second}/stray")
    files[1].put(root, f"{files[1].place}.tmp")
    files[2].put(root).write_bytes(b"")
    (root / "1").mkdir()
    async with AsyncExitStack() as stack:
        for directory in (root, *root.iterdir()):
            stack.enter_context(read_only(directory))
        async with broker(tmp_path, *manual, wrapper=WITHOUT_ROOTS_RIGHTS) as (process, client):
            await client.put_topic(TOPIC)
            await client.wait_delivered(TOPIC, 1, wait="30s")
            await wait_for_log(process, client, f"quarantining the delayed message {files[2].entry.name}")
            for left in ("1 (Permission denied)", f"{files[0].entry.second}/stray (Permission denied)"):
                await wait_for_log(process, client, f"ignoring {left} in the delay directory")
            assert await everything_of(client) == ["m0"]
    async with broker(tmp_path, *manual) as (process, client):
        await client.wait_delivered(TOPIC, 2, wait="30s")
        await wait_for_log(process, client, f"quarantining the delayed message {files[2].entry.name}")
        assert await everything_of(client) == ["m0", "m1"]
    assert {path.parent.name for path in delayed_files(tmp_path)} == {QUARANTINE}
