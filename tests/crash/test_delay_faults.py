"""A delay directory that is full, broken, changed by hand or copied back: what is good comes exactly once."""

import asyncio
import errno
import logging
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import ClientSession
from mocketmq.broker.broker import Broker
from mocketmq.client import Answer, BrokerError, Client
from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.errors import StoreUnavailableError
from mocketmq.message.message import Message
from mocketmq.message.names import SCHEDULE_TOPIC
from mocketmq.message.properties import TIMER_DELAY_MS, UNIQ_KEY
from mocketmq_compat.delay.delay_directory import QUARANTINE, DelayDirectory
from mocketmq_compat.delay.delay_files import DelayFiles
from mocketmq_compat.delay.delayed_file import Entry, key_hash
from mocketmq_compat.delay.second_directories import SecondDirectories
from msgspec.structs import replace

from tests.crash.disks import Disk, write_limit
from tests.crash.faults import (
    TOPIC,
    WITHOUT_ROOTS_RIGHTS,
    assert_refused_by_the_store,
    broker,
    delivered,
    read_only,
    send,
    stop_a_move,
)
from tests.crash.survivor import delayed_files
from tests.support.api import running_api
from tests.support.brokers import S, running_broker, visible
from tests.support.delayed_files import DUE_MS, Made, made
from tests.support.process import BrokerProcess

BLOCK = 4_096
HOUR_MS = 3_600_000
HOUR_US = HOUR_MS * US_PER_MS
LIMIT_S = 20.0
"""Real seconds after which something that never comes fails a test."""


def timed_of(running: Broker) -> SecondDirectories:
    """The scheme inside a broker of this process."""
    assert isinstance(running.timed, SecondDirectories)
    return running.timed


async def keep(running: Broker, message_id: str, delay_ms: int) -> None:
    message = Message(TOPIC, b"b", {UNIQ_KEY: message_id, TIMER_DELAY_MS: str(delay_ms)})
    await running.send(message)


async def come(running: Broker, after_us: int = 0) -> list[str]:
    """What is visible by then, in order; what is due at once is delivered first."""
    await running.advance_clock(after_us)
    await timed_of(running).files.removed()
    return [m.unique_key for m in await visible(running)] if running.topics.find(TOPIC) else []


def reasons(data: Path) -> dict[str, str]:
    """Of each file that was put aside."""
    bad = data / "delay" / QUARANTINE
    names = [path.name for path in bad.glob("*") if path.suffix != ".reason"]
    return {name: (bad / f"{name}.reason").read_text() for name in names}


@pytest.fixture
def first_turn(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """When a broker has looked for foreign files, as it does when it starts. The next time is far off."""
    turned = asyncio.Event()
    turn = DelayFiles.turn

    async def tell(files: DelayFiles) -> None:
        await turn(files)
        turned.set()

    monkeypatch.setattr(DelayFiles, "turn", tell)
    return turned


# A disk that is full for a while


async def test_full_disk_refuses_delayed_messages_until_it_has_room(disk: Disk) -> None:
    manual = ("--clock", "manual")
    async with broker(disk.directory, *manual) as (process, client):
        await send(client, "before", delay_ms=60_000)
        disk.fill(process)
        for message_ids in (["meanwhile"], ["all", "or", "none"]):
            with pytest.raises(BrokerError) as error:
                await send(client, *message_ids, delay_ms=60_000)
            assert_refused_by_the_store(error.value, "a delayed message cannot be written: ")
            assert os.strerror(disk.error) in error.value.detail
            assert "nothing of it was kept" in error.value.detail
        assert [m["message_id"] for m in (await client.delayed())["messages"]] == ["before"]
        disk.free(process)
        await send(client, "after", delay_ms=1_000)
        process.kill()
        await process.wait()
    assert len(delayed_files(disk.directory)) == 2
    async with broker(disk.directory, *manual) as (_, client):
        await client.advance("2m")
        assert await delivered(client) == ["after", "before"]
    assert delayed_files(disk.directory) == []


async def test_batch_whose_other_messages_find_no_room(disk: Disk) -> None:
    """Its files are there already when the store refuses the rest."""
    async with broker(disk.directory, "--clock", "manual") as (process, client):
        await send(client, "before")
        disk.fill(process, room=30_000)
        mixed: list[Answer] = [{"body": "b", "delay_ms": 1_000}, {"body": "b" * 100_000}]
        with pytest.raises(BrokerError) as error:
            await client.send_batch(TOPIC, mixed)
        assert_refused_by_the_store(error.value)
        assert (await client.delayed())["messages"] == []
        disk.free(process)
        assert (await client.advance("1m"))["fired"] == 0
    assert delayed_files(disk.directory) == []


async def wait_for_log(process: BrokerProcess, client: Client, sentence: str) -> None:
    async with asyncio.timeout(LIMIT_S):
        while sentence not in process.stderr:
            await client.wait_delivered(TOPIC, 1_000, wait="20ms")


async def test_due_files_wait_for_room_on_the_disk(disk: Disk) -> None:
    async with broker(disk.directory) as (process, client):
        parked = [f"m{number}" for number in range(20)]
        await send(client, *parked, delay_ms=1_000)
        disk.fill(process)
        await wait_for_log(process, client, "due messages cannot be delivered")
        files = (await client.levels())["second_directories"]
        assert (files["pending"], files["oldest_overdue_ms"] is None) == (20, False)
        assert await delivered(client) == []
        disk.free(process)
        assert (await client.wait_delivered(TOPIC, 20, wait="10s"))["reached"]
        assert await delivered(client) == parked
    assert process.stderr.count("due messages cannot be delivered") == 1


@pytest.mark.parametrize("then", ["go on", "kill"])
async def test_full_disk_stops_a_move_of_the_clock_where_it_is(tmp_path: Path, then: str) -> None:
    """Only where files that are delivered make no room for more."""

    async def park(client: Client, minute: int, message_ids: list[str]) -> None:
        await send(client, *message_ids, delay_ms=minute * 60_000)

    with write_limit(tmp_path) as disk:
        await stop_a_move(disk, then, park, 1_200, room=1_200_000)
    assert delayed_files(disk.directory) == []


async def test_quota(tmp_path: Path) -> None:
    settings = {"data": str(tmp_path), "delay_quota_bytes": 4 * BLOCK}
    path = f"/v1/topics/{TOPIC}/messages"
    async with running_api(**settings) as api:
        for _ in range(3):
            await api.send(TOPIC, delay_ms=1_000)
        for _ in range(2):  # a batch that does not fit leaves nothing behind that would fill the quota
            await api.refused(
                507, "POST", f"{path}/batch", {"messages": [{"body": "b", "delay_ms": 1_000}] * 2}
            )
            await timed_of(api.emulator.broker).files.removed()
        await api.send(TOPIC, delay_ms=1_000)
    async with running_api(**settings) as api:
        problem = await api.refused(507, "POST", path, {"body": "b", "delay_ms": 1_000})
        assert problem["detail"] == (
            "delayed messages take 16384 of 16384 bytes of disk, and this one needs 4096 more; raise"
            " --delay-quota, or wait until some are delivered"
        )
        await api.send(TOPIC)
        await api.send(TOPIC, delay_level=1)
        assert (await api.ok("POST", "/v1/clock/advance", {"by": "1h"}))["fired"] == 5
        await timed_of(api.emulator.broker).files.removed()
        await api.send(TOPIC, delay_ms=1_000)


async def test_what_is_put_aside_does_not_count_for_the_quota(tmp_path: Path) -> None:
    file = made()
    file.put(tmp_path / "delay").write_bytes(file.content[:-1])
    made("stray").put(tmp_path / "delay", f"{file.entry.second}/torn").write_bytes(b"")
    async with running_broker(tmp_path, delay_quota_bytes=2 * BLOCK) as running:
        assert await come(running) == []
        assert timed_of(running).state().disk_bytes == 0
        await keep(running, "a", 1_000)
        await keep(running, "b", 1_000)


# A disk that fails otherwise


@contextmanager
def failing(
    monkeypatch: pytest.MonkeyPatch, name: str, code: int, only: Callable[[Entry], bool] = lambda _: True
) -> Iterator[list[Entry]]:
    """A method of delay directories raises; the entries that it did that for."""
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


async def test_file_that_cannot_be_made_durable_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as running:
        with (
            failing(monkeypatch, "sync", errno.EIO),
            pytest.raises(StoreUnavailableError, match="cannot be written"),
        ):
            await keep(running, "a", 1_000)
        assert delayed_files(tmp_path) == []
        await keep(running, "b", 1_000)
        assert await come(running, S) == ["b"]
        assert timed_of(running).state().disk_bytes == 0


async def test_too_many_open_files_put_nothing_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker(tmp_path) as running:
        await keep(running, "a", 1_000)
        with (
            failing(monkeypatch, "read", errno.EMFILE),
            pytest.raises(StoreUnavailableError, match="cannot be used"),
        ):
            await come(running, S)
        assert await come(running, S) == ["a"]
        assert not timed_of(running).state().put_aside


async def test_file_that_cannot_be_read_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as running:
        for message_id in ("a", "b", "c"):
            await keep(running, message_id, 1_000)
        second = sorted(timed_of(running).files.index)[1]
        with failing(monkeypatch, "read", errno.EIO, second.__eq__):
            assert await come(running, S) == ["a", "c"]
        assert timed_of(running).state().put_aside == {"unreadable": 1}
    reason = f"the file cannot be read: {os.strerror(errno.EIO)}\n"
    assert reasons(tmp_path) == {f"{second.second}-{second.name}": reason}


# Files that cannot be removed (W5)


async def test_file_that_cannot_be_removed_is_not_delivered_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    first_turn: asyncio.Event,
) -> None:
    caplog.set_level(logging.WARNING)
    with ExitStack() as faults:
        tries = faults.enter_context(failing(monkeypatch, "remove", errno.EACCES))
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
            state = timed_of(running).state()
            assert (state.pending, state.unremoved, state.next_due_us) == (0, 4, None)
            assert len(tries) == caplog.text.count("is done with, but stays") == 4, (
                "it is not tried all the time"
            )
            await timed_of(running).files.turn()
            assert await come(running, S) == ["forced", "a", "b"]
            assert (len(tries), timed_of(running).state().unremoved) == (8, 4)
        assert len(delayed_files(tmp_path)) == 4
        async with running_broker(tmp_path) as running:
            assert await come(running) == ["forced", "a", "b"]
            state = timed_of(running).state()
            assert (state.pending, state.unremoved, state.repeats) == (0, 4, 4)
            faults.close()
            await timed_of(running).files.turn()
            assert await come(running, 2 * HOUR_US) == ["forced", "a", "b"]
            state = timed_of(running).state()
            assert (state.unremoved, state.disk_bytes, state.repeats) == (0, 0, 4)
    assert delayed_files(tmp_path) == []


async def everything_of(client: Client) -> list[str]:
    queues = (await client.topic(TOPIC))["queues"]
    pages = [await client.browse(TOPIC, queue["queue_id"]) for queue in queues]
    return sorted(message["message_id"] for page in pages for message in page["messages"])


async def test_directory_of_a_second_that_became_read_only(tmp_path: Path) -> None:
    manual = ("--clock", "manual")
    async with broker(tmp_path, *manual) as (_, client):
        await send(client, "a", "b", delay_ms=1_000)
    [second] = (tmp_path / "delay").iterdir()
    for repeats in (0, 2):
        with read_only(second):
            async with broker(tmp_path, *manual, wrapper=WITHOUT_ROOTS_RIGHTS) as (process, client):
                await client.advance("1h")
                assert await delivered(client) == ["a", "b"]
                await wait_for_log(process, client, "is done with, but stays: Permission denied")
                levels = (await client.levels())["second_directories"]
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
            assert (await client.wait_delivered(TOPIC, 3))["reached"]
            assert await delivered(client) == ["before", "undelayed", "after"]


async def test_read_only_directory_with_something_to_put_in_order(tmp_path: Path) -> None:
    """A stray, an empty directory, a torn file and what a kill left: none keeps the broker from starting."""
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
            await client.wait_delivered(TOPIC, 1)
            await wait_for_log(process, client, f"{files[2].entry.name} is put aside")
            for left in ("1 (Permission denied)", f"{files[0].entry.second}/stray (Permission denied)"):
                assert f"holds {left}, which is not ours and is left alone" in process.stderr
            assert await everything_of(client) == ["m0"]
    async with broker(tmp_path, *manual) as (process, client):
        await client.wait_delivered(TOPIC, 2)
        await wait_for_log(process, client, f"{files[2].entry.name} is put aside")
        assert await everything_of(client) == ["m0", "m1"]
    assert {path.parent.name for path in delayed_files(tmp_path)} == {QUARANTINE}


# A directory made or changed by hand

OTHER_SECONDS = range(50)
"""So many that a copy is met before its original, in whatever order the directory is read."""


class Change(NamedTuple):
    """What somebody does with the file of a message, and what becomes of it."""

    make: Callable[[Path, Made], object]
    is_good: bool = True  # the message is delivered
    put_aside: str = ""  # the kind of the file that is put aside, if one is
    repeats: int | None = 0  # copies that are removed; None: one may be moved over the other instead


def placed(name: str = "", second: int = 0) -> Callable[[Path, Made], object]:
    """Put where it belongs, but for another name, or so many seconds off."""
    return lambda root, file: file.put(root, f"{file.entry.second + second}/{name or file.entry.name}")


def damaged(damage: Callable[[bytes], bytes], name: str = "") -> Callable[[Path, Made], object]:
    def make(root: Path, file: Made) -> None:
        place = file.put(root)
        place.write_bytes(damage(file.content))
        if name:
            place.rename(place.with_name(name))

    return make


def all_of(*changes: Callable[[Path, Made], object]) -> Callable[[Path, Made], object]:
    def make(root: Path, file: Made) -> None:
        for change in changes:
            change(root, file)

    return make


def retimed(by_ms: int) -> Callable[[Path, Made], object]:
    """The due time is changed, in the name only."""
    return lambda root, file: placed(file.entry._replace(due_ms=file.entry.due_ms + by_ms).name)(root, file)


def in_other_seconds(root: Path, file: Made) -> None:
    for number in OTHER_SECONDS:
        placed(second=number - len(OTHER_SECONDS))(root, file)


def for_topic(name: str) -> Callable[[Path, Made], object]:
    return lambda root, file: Made(replace(file.header, topic=name), file.body).put(root)


def flipped(content: bytes, at: int) -> bytes:
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


ON_START = {
    "where it belongs": Change(placed()),
    "made-up name": Change(placed("by hand")),
    "made-up name of a temporary file": Change(placed("copy.tmp")),
    "directory of another second": Change(placed(second=-7)),
    "copy under a made-up name": Change(all_of(placed(), placed("copy")), repeats=1),
    "two copies and no original": Change(all_of(placed("one"), placed("two")), repeats=1),
    "copies in other directories": Change(all_of(in_other_seconds, placed()), repeats=len(OTHER_SECONDS)),
    "copy with an earlier time in its name": Change(all_of(retimed(-1), placed()), put_aside="name"),
    "copy with a later time in its name": Change(all_of(retimed(1), placed()), put_aside="name"),
    "another time in its name": Change(retimed(1), False, "name"),
    "torn in its first line": Change(damaged(lambda content: content[:10]), False, "torn"),
    "torn in its body": Change(damaged(lambda content: content[:-1]), False, "checksum"),
    "torn and copied": Change(damaged(lambda content: content[:-1], "copy"), False, "checksum"),
    "empty": Change(damaged(lambda _: b""), False, "torn"),
    "zeros": Change(damaged(lambda content: bytes(len(content))), False, "torn"),
    "flipped in its first line": Change(damaged(lambda content: flipped(content, 0)), False, "stray"),
    "flipped in its header": Change(damaged(lambda content: flipped(content, 100)), False, "checksum"),
    "flipped in its body": Change(damaged(lambda content: flipped(content, -1)), False, "checksum"),
    "of a later version": Change(
        damaged(lambda content: content.replace(b" 1 ", b" 2 ", 1)), False, "version"
    ),
    "something else": Change(damaged(lambda _: b"notes", "notes.txt"), False, "stray"),
    "for a topic of the broker": Change(for_topic(SCHEDULE_TOPIC), False, "header"),
}
WHILE_RUNNING = {
    **{name: change for name, change in ON_START.items() if "temporary" not in name},
    # The content is what counts for a file that is new.
    "copy with an earlier time in its name": Change(all_of(retimed(-1), placed()), repeats=None),
    "copy with a later time in its name": Change(all_of(placed(), retimed(1)), repeats=None),
    "another time in its name": Change(retimed(1)),
}


def messages_at(now_ms: int) -> list[Made]:
    """One that is long overdue, and one that will be due."""
    return [made("past", due_ms=DUE_MS), made("future", due_ms=now_ms + HOUR_MS, number=8)]


async def judge_change(running: Broker, data: Path, change: Change) -> None:
    await keep(running, "neighbour", HOUR_MS)
    found = await come(running, 2 * HOUR_US)
    good = ["future", "past"] if change.is_good else []
    assert sorted(found) == sorted([*good, "neighbour"])
    state = timed_of(running).state()
    times = 2 if change.put_aside else 0
    assert state.put_aside == Counter({change.put_aside: times} if times else {})
    assert state.quarantined == times
    assert change.repeats is None or state.repeats == 2 * change.repeats
    assert (state.pending, state.unremoved, state.disk_bytes) == (0, 0, 0)
    why = reasons(data)
    assert len(why) == times
    assert all(len(reason) > 20 for reason in why.values()), why
    assert {path.parent.name for path in delayed_files(data)} <= {QUARANTINE}


async def judge_restart(data: Path, change: Change) -> None:
    """Nothing comes again, and what was put aside is still known."""
    async with running_broker(data) as running:
        found = await come(running, 2 * HOUR_US)
        assert len(found) == len(set(found))
        state = timed_of(running).state()
        assert (state.quarantined, state.repeats, len(state.put_aside)) == (2 * bool(change.put_aside), 0, 0)
        assert {path.name for path in (data / "delay").iterdir()} <= {QUARANTINE}


@pytest.mark.parametrize("change", ON_START.values(), ids=ON_START)
async def test_directory_made_by_hand(tmp_path: Path, change: Change) -> None:
    for file in messages_at(wall_us() // US_PER_MS):
        change.make(tmp_path / "delay", file)
    async with running_broker(tmp_path) as running:
        await judge_change(running, tmp_path, change)
    await judge_restart(tmp_path, change)


@pytest.mark.parametrize("change", WHILE_RUNNING.values(), ids=WHILE_RUNNING)
async def test_directory_changed_by_hand_while_the_broker_runs(
    tmp_path: Path, change: Change, first_turn: asyncio.Event
) -> None:
    async with running_broker(tmp_path) as running:
        await first_turn.wait()
        for file in messages_at(running.clock.now_us() // US_PER_MS):
            change.make(tmp_path / "delay", file)
        await timed_of(running).files.turn()
        await judge_change(running, tmp_path, change)
    await judge_restart(tmp_path, change)


async def test_what_is_no_message_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = tmp_path / "delay"
    past, future = messages_at(wall_us() // US_PER_MS)
    foreign = {"orders", "note.txt", str(past.entry.second + 1)}
    past.put(root, f"orders/{past.entry.name}")
    (root / "note.txt").write_text("x")
    past.put(tmp_path / "elsewhere", "1/file")
    (root / str(past.entry.second + 1)).symlink_to(tmp_path / "elsewhere" / "1")
    place = past.put(root)
    place.with_name("folder").mkdir()
    place.with_name("link").symlink_to(tmp_path / "elsewhere" / "1" / "file")
    for empty in (past.entry.second - 1, future.entry.second):
        (root / str(empty)).mkdir()
    for _ in range(2):
        async with running_broker(tmp_path) as running:
            assert await come(running) == ["past"]
            assert timed_of(running).state().put_aside == {"ignored": 5}
            assert {path.name for path in root.iterdir()} == foreign | {
                str(second) for second in (past.entry.second, future.entry.second)
            }
            assert {path.name for path in place.parent.iterdir()} == {"folder", "link"}
    async with running_broker(tmp_path) as running:
        await come(running, 2 * HOUR_US)
    async with running_broker(tmp_path) as running:
        assert {path.name for path in root.iterdir()} == foreign | {str(past.entry.second)}
    logged = [
        record.message for record in caplog.records if "is not ours and is left alone" in record.message
    ]
    assert len(logged) == 4 * 5


async def test_metrics_tell_what_was_put_aside(tmp_path: Path) -> None:
    root = tmp_path / "delay"
    for name in ("empty", "something else", "of a later version"):
        ON_START[name].make(root, made(name))
    all_of(placed(), placed("copy"))(root, made("good"))
    (root / "orders").mkdir()
    async with running_api(data=str(tmp_path)) as api:
        await api.ok("POST", "/v1/clock/advance", {"by": "0"})
        lines = (await api.ok("GET", "/metrics")).decode().splitlines()
        levels = await api.ok("GET", "/v1/levels")
    kinds = {"torn", "stray", "version", "ignored"}
    assert {line for line in lines if line.startswith("mocketmq_files_put_aside_total")} == {
        f'mocketmq_files_put_aside_total{{kind="{kind}"}} 1.0' for kind in kinds
    }
    assert {"mocketmq_quarantined_files 3.0", "mocketmq_refused_repeats_total 1.0"} <= {*lines}
    assert levels["second_directories"]["quarantined"] == 3


# A backup that is copied back

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
    """Then everything happens that can happen to a message."""
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
    assert sorted(m.message.unique_key for m in await running.pending.list()) == ["later", "missing"]
    assert running.pending.count == 2
    assert await come(running, 2 * HOUR_US) == ["forced", "one", "two", "later", "missing"]
    state = timed_of(running).state()
    assert (state.repeats, state.pending, state.quarantined, state.disk_bytes) == (4, 0, 0, 0)
    assert delayed_files(data) == []


def lose(running: Broker, data: Path, message_id: str) -> None:
    """Somebody removes the file of a message."""
    digest = key_hash(message_id)
    [entry] = timed_of(running).files.index.with_key(digest)
    (data / "delay" / str(entry.second) / entry.name).unlink()


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
async def test_backup_copied_back_before_the_start(tmp_path: Path, copy: Copy) -> None:
    data = tmp_path / "data"
    async with running_broker(data) as running:
        backup = await make_backup(running, data)
        lose(running, data, "missing")
    copy(backup, data / "delay")
    async with running_broker(data) as running:
        await judge_backup(running, data)
    copy(backup, data / "delay")
    async with running_broker(data) as running:
        assert await come(running, HOUR_US) == ["forced", "one", "two", "later", "missing"]
        assert (timed_of(running).state().repeats, delayed_files(data)) == (6, [])


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
async def test_backup_copied_back_while_the_broker_runs(
    tmp_path: Path, copy: Copy, first_turn: asyncio.Event
) -> None:
    data = tmp_path / "data"
    async with running_broker(data) as running:
        await first_turn.wait()
        backup = await make_backup(running, data)
        await timed_of(running).files.turn()  # from now on only what changes later is looked at
        lose(running, data, "missing")
        copy(backup, data / "delay")
        await timed_of(running).files.turn()
        await judge_backup(running, data)
        copy(backup, data / "delay")
        await timed_of(running).files.turn()
        assert await come(running, HOUR_US) == ["forced", "one", "two", "later", "missing"]
        assert (timed_of(running).state().repeats, delayed_files(data)) == (10, [])


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
async def test_file_that_was_lost_comes_back_with_a_backup_after_it_was_due(
    tmp_path: Path, copy: Copy, first_turn: asyncio.Event
) -> None:
    data = tmp_path / "data"
    async with running_broker(data) as running:
        await first_turn.wait()
        backup = await make_backup(running, data)
        lose(running, data, "missing")
        assert await come(running, HOUR_US) == ["forced", "one", "two", "later"]
        assert timed_of(running).state().put_aside == {"missing": 1}
        await timed_of(running).files.turn()
        copy(backup, data / "delay")
        await timed_of(running).files.turn()
        assert await come(running) == ["forced", "one", "two", "later", "missing"]
        assert delayed_files(data) == []


async def test_data_directory_copied_and_started_elsewhere(tmp_path: Path) -> None:
    """Both brokers deliver what waited then, and neither what was delivered."""
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    async with running_broker(data) as running:
        await make_backup(running, data)
    shutil.copytree(data, elsewhere)
    for place in (data, elsewhere):
        async with running_broker(place) as running:
            await keep(running, place.name, 3 * HOUR_MS)
            found = await come(running, 2 * HOUR_US)
            assert found == ["forced", "one", "two", "later", "missing"]
    # What waits in one may be brought to the other.
    shutil.copytree(elsewhere / "delay", data / "delay", dirs_exist_ok=True)
    async with running_broker(data) as running:
        found = await come(running, 2 * HOUR_US)
        assert found == ["forced", "one", "two", "later", "missing", "data", "elsewhere"]
        assert timed_of(running).state().repeats == 0
