"""A delay directory is made or changed by hand: each valid message is delivered exactly once."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from mocketmq.broker.broker import Broker
from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.message.names import SCHEDULE_TOPIC
from mocketmq_compat.delay.quarantine import QUARANTINE
from tests.crash.delayed import HOUR_MS, HOUR_US, come, keep, reasons, timed_of
from tests.crash.survivor import delayed_files
from tests.support.api import running_api
from tests.support.brokers import running_broker
from tests.support.delayed_files import DUE_MS, Made, made

OTHER_SECONDS = range(50)
"""Number of copies, enough that one is read before its original in any order of the directory."""


class Change(NamedTuple):
    """A change to the file of a message, and its expected result."""

    make: Callable[[Path, Made], object]
    is_good: bool = True  # the message is delivered
    put_aside: str = ""  # the kind of the quarantined file, if any
    repeats: int | None = 0  # number of removed copies; None if one may replace the other


def placed(name: str = "", second: int = 0) -> Callable[[Path, Made], object]:
    """Move the file to another name, or to a directory some seconds off."""
    return lambda root, file: file.put(root, f"{file.entry.second + second}/{name or file.entry.name}")


def damaged(damage: Callable[[bytes], bytes], name: str = "") -> Callable[[Path, Made], object]:
    def make(root: Path, file: Made) -> None:
        place = file.put(root)
        place.write_bytes(damage(file.content))
        os.utime(place, (0, 0))  # no program is writing it
        if name:
            place.rename(place.with_name(name))

    return make


def all_of(*changes: Callable[[Path, Made], object]) -> Callable[[Path, Made], object]:
    def make(root: Path, file: Made) -> None:
        for change in changes:
            change(root, file)

    return make


def retimed(by_ms: int) -> Callable[[Path, Made], object]:
    """Change the due time in the file's name only."""
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
    # The content of a new file decides.
    "copy with an earlier time in its name": Change(all_of(retimed(-1), placed()), repeats=None),
    "copy with a later time in its name": Change(all_of(placed(), retimed(1)), repeats=None),
    "another time in its name": Change(retimed(1)),
}


def messages_at(now_ms: int) -> list[Made]:
    """Return an overdue message and a pending message."""
    return [made("past", due_ms=DUE_MS), made("future", due_ms=now_ms + HOUR_MS, number=8)]


async def judge_change(running: Broker, data: Path, change: Change) -> None:
    await keep(running, "neighbour", HOUR_MS)
    found = await come(running, 2 * HOUR_US)
    good = ["future", "past"] if change.is_good else []
    assert sorted(found) == sorted([*good, "neighbour"])
    state = timed_of(running).file_figures()
    times = 2 if change.put_aside else 0
    assert state.put_aside == Counter({change.put_aside: times} if times else {})
    assert state.quarantined == times
    assert change.repeats is None or state.repeats == 2 * change.repeats
    assert (timed_of(running).pending, state.unremoved, state.disk_bytes) == (0, 0, 0)
    why = reasons(data)
    assert len(why) == times
    assert all(len(reason) > 20 for reason in why.values()), why
    assert {path.parent.name for path in delayed_files(data)} <= {QUARANTINE}


async def judge_restart(data: Path, change: Change) -> None:
    """Check that nothing is delivered again, and that quarantined files are still listed."""
    async with running_broker(data) as running:
        found = await come(running, 2 * HOUR_US)
        assert len(found) == len(set(found))
        state = timed_of(running).file_figures()
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
        await timed_of(running).tidy()
        await judge_change(running, tmp_path, change)
    await judge_restart(tmp_path, change)


async def test_foreign_files_are_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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
            assert timed_of(running).file_figures().put_aside == {"ignored": 5}
            assert {path.name for path in root.iterdir()} == foreign | {
                str(second) for second in (past.entry.second, future.entry.second)
            }
            assert {path.name for path in place.parent.iterdir()} == {"folder", "link"}
    async with running_broker(tmp_path) as running:
        await come(running, 2 * HOUR_US)
    async with running_broker(tmp_path) as running:
        assert {path.name for path in root.iterdir()} == foreign | {str(past.entry.second)}
    logged = [record.message for record in caplog.records if "ignoring " in record.message]
    assert len(logged) == 4 * 5


async def test_metrics_count_quarantined_files(tmp_path: Path) -> None:
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
    assert levels["timed"]["quarantined"] == 3
