"""``kill -9`` while a snapshot is saved or restored leaves the state before or after it."""

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.failpoint import ENVIRONMENT
from mocketmq.settings import TimedSchemeName
from mocketmq_compat.delay.schemes import SCHEMES
from tests.support.brokers import S, bodies, receive, running_broker, send, visible
from tests.support.patience import HANGING_S
from tests.support.second_directories import send_in

OF_RESTORES = ("snapshots.noted", "snapshots.staged", "snapshots.restored")
OF_SAVES = ("snapshots.written", "snapshots.renamed")
WRITES = range(1, 6)
"""Passes of the writer's points: in the start, in the restore's notes, in its transaction, and after it."""
OF_FILES = (*OF_RESTORES, "files.removed")
OF_WRITER = [
    f"{point}:{count}"
    for point in ("writer.formed", "writer.written", "writer.committed")
    for count in WRITES
]


async def state_of(broker: Broker) -> list[object]:
    """What can be seen of the broker, and what becomes of its pending messages."""
    now_us = broker.clock.now_us()
    seen = [(one.log_offset, one.body) for one in await visible(broker)]
    pending = sorted(one.message.body for one in await broker.pending.list())
    free = sorted(bodies(await receive(broker)))
    await broker.mover.advance(3_600 * S)
    return [now_us, seen, pending, free, sorted(bodies(await visible(broker)))]


async def prepare(data: Path, scheme: TimedSchemeName) -> None:
    """A snapshot, and a state in which its delayed messages are delivered and others wait."""
    async with running_broker(data, timed_scheme=scheme) as broker:
        await send(broker, "plain", queue=0)
        await send(broker, "level", level=4)
        await send_in(broker, 20_000, "first")
        await send_in(broker, 90_000, "stays")
        await broker.snapshots.save("here")
        await broker.mover.advance(60 * S)
        await send_in(broker, 45_000, "later")
        await send(broker, "more", queue=0)


async def killed(what: str, data: Path, scheme: str, failpoint: str) -> bool:
    """Whether the failpoint killed the process that acts."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.crash.restoring", what, str(data), scheme),
        env={**os.environ, ENVIRONMENT: failpoint},
    )
    async with asyncio.timeout(HANGING_S):
        status = await process.wait()
    assert status in (0, -signal.SIGKILL)
    return status != 0


async def seen_in(data: Path, copy: Path, scheme: TimedSchemeName) -> list[object]:
    """The state that a start finds, looked at in a copy."""
    shutil.copytree(data, copy)
    async with running_broker(copy, timed_scheme=scheme) as broker:
        return await state_of(broker)


@pytest.mark.slow
@pytest.mark.parametrize(("place", "scheme"), [*enumerate(SCHEMES)], ids=SCHEMES)
async def test_a_kill_at_any_point_of_a_restore(tmp_path: Path, place: int, scheme: TimedSchemeName) -> None:
    """The schemes share the points of the writer, which knows no scheme."""
    await restores(tmp_path, scheme, [*OF_FILES, *OF_WRITER[place :: len(SCHEMES)]])


async def test_a_kill_at_some_points_of_a_restore(tmp_path: Path) -> None:
    await restores(tmp_path, "wheel", OF_RESTORES)


async def restores(tmp_path: Path, scheme: TimedSchemeName, failpoints: Sequence[str]) -> None:
    """Kill a restore at each of the points, each time from the same state, and compare what a start finds."""
    await prepare(tmp_path / "data", scheme)
    before = await seen_in(tmp_path / "data", tmp_path / "before", scheme)
    shutil.copytree(tmp_path / "data", tmp_path / "restored")
    assert not await killed("restore", tmp_path / "restored", scheme, "")
    after = await seen_in(tmp_path / "restored", tmp_path / "after", scheme)
    assert before[4] != after[4] and after[2] == [b"first", b"level", b"stays"]
    found = []
    for number, failpoint in enumerate(failpoints):
        data = tmp_path / str(number)
        shutil.copytree(tmp_path / "data", data)
        if await killed("restore", data, scheme, failpoint):
            state = await seen_in(data, tmp_path / f"{number}-seen", scheme)
            assert state in (before, after), failpoint
            found.append(state == after)
        assert not await killed("restore", data, scheme, "")
        assert await seen_in(data, tmp_path / f"{number}-again", scheme) == after, failpoint
    assert {*found} == {False, True}


@pytest.mark.parametrize("failpoint", OF_SAVES)
async def test_a_kill_in_a_save_leaves_the_snapshot_before_or_the_new_one(
    tmp_path: Path, failpoint: str
) -> None:
    await prepare(tmp_path, "directories")
    assert await killed("save", tmp_path, "directories", failpoint)
    async with running_broker(tmp_path) as broker:
        [kept], damaged = await broker.snapshots.listed()
        assert damaged == {}
        await broker.snapshots.restore("here")
        has_newer = "newer" in bodies(await visible(broker))
        assert (has_newer, kept.manifest.messages > 2) == ((failpoint == "snapshots.renamed"),) * 2
        await broker.snapshots.save("here", replace=True)
    assert [path.name for path in (tmp_path / "snapshots").iterdir()] == ["here.snapshot"]
