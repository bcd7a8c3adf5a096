"""Syncs of the log: which callers wait for a sync, what it covers, and effects of a failure."""

import asyncio
import errno
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mocketmq.errors import StoppingError, StoreBusyError, StoreFailedError
from mocketmq.store.batch import Batch
from mocketmq.store.database import MEMORY, Database
from mocketmq.store.transaction_runner import SLOW_US
from mocketmq.store.wal_syncs import QUICK_US
from mocketmq.store.writer import Until, Work, Writer, WriterLimits
from tests.support.patience import PATIENCE_S
from tests.unit.store.test_writer import running_writer

SAVE = "INSERT INTO counters VALUES (?, 1)"


class Disk:
    """Counts syncs; each ends when the test allows it, or fails."""

    def __init__(self) -> None:
        self.begun = 0
        self.running = 0
        self.error: OSError | None = None
        self._may_end = threading.Semaphore(0)
        self._loop = asyncio.get_running_loop()
        self._begins = asyncio.Event()

    def sync(self) -> None:
        assert self.running == 0
        self.running += 1
        self.begun += 1
        self._loop.call_soon_threadsafe(self._begins.set)
        assert self._may_end.acquire(timeout=PATIENCE_S)
        self.running -= 1
        if self.error:
            raise self.error

    def let_end(self, syncs: int = 1) -> None:
        self._may_end.release(syncs)

    async def begins(self) -> None:
        """Wait until a sync has begun since the last call."""
        async with asyncio.timeout(PATIENCE_S):
            await self._begins.wait()
        self._begins.clear()


@pytest.fixture
async def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(Database, "sync", disk.sync)
    return disk


@pytest.fixture
async def writer(disk: Disk, tmp_path: Path) -> AsyncIterator[Writer]:
    async with running_writer(tmp_path) as writer:
        try:
            yield writer
        finally:
            disk.let_end(1_000)


def save(name: str) -> Work:
    return lambda batch: batch.execute(SAVE, (name,))


def committing(writer: Writer, name: str) -> asyncio.Task[None]:
    return asyncio.create_task(writer.commit(save(name), until="durable"))


async def names(writer: Writer) -> set[str]:
    return {name for (name,) in await writer._database.rows("SELECT name FROM counters")}


async def ended(*tasks: asyncio.Task[None]) -> list[BaseException | None]:
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.gather(*tasks, return_exceptions=True)


async def test_only_promises_wait_for_a_sync(disk: Disk, writer: Writer) -> None:
    await writer.commit(save("a"), until="visible")
    assert disk.begun == 0
    promised = committing(writer, "b")
    await disk.begins()
    await writer.commit(save("c"), until="visible")
    assert await names(writer) == {"a", "b", "c"}
    assert not promised.done()
    disk.let_end()
    await ended(promised)


async def test_sync_covers_commits_before_its_start(disk: Disk, writer: Writer) -> None:
    first = committing(writer, "a")
    await disk.begins()
    during = [committing(writer, name) for name in ("b", "c")]
    await writer.commit(save("d"), until="visible")  # so the earlier rows are committed too
    disk.let_end()
    await disk.begins()
    assert first.done()
    assert not any(task.done() for task in during)
    disk.let_end()
    await ended(*during)
    assert disk.begun == 2


async def test_work_without_changes_waits_for_the_sync_of_earlier_commits(disk: Disk, writer: Writer) -> None:
    disk.let_end()
    await writer.synced()  # the previous broker may have been killed
    assert disk.begun == 1
    await writer.commit(lambda _batch: None)
    await writer.synced()
    assert disk.begun == 1
    await disk.begins()
    await writer.commit(save("a"), until="visible")
    waiting = [asyncio.create_task(writer.synced()), asyncio.create_task(writer.commit(lambda _batch: None))]
    await disk.begins()
    assert not any(task.done() for task in waiting)
    disk.let_end(2)
    await ended(*waiting)


async def test_a_failed_sync_fails_waiting_and_future_work(disk: Disk, writer: Writer) -> None:
    before = committing(writer, "before")
    await disk.begins()
    disk.let_end()
    assert await ended(before) == [None]
    disk.error = OSError(errno.EIO, "Input/output error")
    waited = committing(writer, "waited")
    await disk.begins()
    behind = committing(writer, "behind")
    await writer.commit(save("seen"), until="visible")
    cleanup = asyncio.create_task(writer.synced())
    await asyncio.sleep(0)
    disk.let_end()
    errors = await ended(waited, behind, cleanup)
    disk.error = None
    for error in errors:
        assert isinstance(error, StoreFailedError)
        assert str(error) == (
            "the store cannot be written: a sync of the disk failed (Input/output error); a restart"
            " shows whether this request was kept; until then, nothing more is written"
        )
    untils: list[Until] = ["visible", "durable"]
    for until in untils:
        with pytest.raises(StoreFailedError):
            await writer.commit(save("later"), until=until)
    assert await names(writer) == {"before", "waited", "behind", "seen"}
    assert disk.begun == 2


async def test_work_queued_before_a_failed_sync_is_refused(disk: Disk, writer: Writer) -> None:
    disk.error = OSError(errno.EIO, "Input/output error")
    waited = committing(writer, "waited")
    await disk.begins()
    formed = asyncio.Event()

    def work(batch: Batch) -> None:
        batch.execute(SAVE, ("formed",))
        formed.set()
        writer._syncs.fail("a sync failed")

    behind = [asyncio.create_task(writer.commit(work, alone=True)), committing(writer, "unformed")]
    await formed.wait()
    disk.let_end()
    assert [type(error) for error in await ended(waited, *behind)] == [StoreFailedError] * 3
    assert await names(writer) == {"waited", "formed"}


async def test_closing_waits_for_the_last_sync(disk: Disk, writer: Writer) -> None:
    promised = committing(writer, "a")
    await disk.begins()
    closing = asyncio.create_task(writer.close())
    await asyncio.wait({promised}, timeout=0.01)
    assert not closing.done()
    with pytest.raises(StoppingError):
        await writer.commit(save("b"))
    disk.let_end()
    assert await ended(closing, promised) == [None, None]


async def test_a_cancelled_caller_waits_for_the_sync(disk: Disk, writer: Writer) -> None:
    promised = committing(writer, "a")
    await disk.begins()
    promised.cancel()
    await asyncio.wait({promised}, timeout=0.01)
    assert not promised.done()
    disk.let_end(2)
    [error] = await ended(promised)
    assert isinstance(error, asyncio.CancelledError)


async def test_work_waiting_for_a_sync_counts_as_waiting(disk: Disk, writer: Writer) -> None:
    first = committing(writer, "a")
    await disk.begins()
    second = committing(writer, "b")
    await writer.commit(save("c"), until="visible")  # so the second is committed too
    writer.limits = WriterLimits(waiting=2)
    assert writer.waiting == 2
    with pytest.raises(StoreBusyError):
        await writer.commit(save("d"))
    disk.let_end(2)
    assert await ended(first, second) == [None, None]
    assert writer.waiting == 0


@pytest.mark.parametrize(("data", "durability"), [(MEMORY, "full"), ("", "normal")])
async def test_commit_suffices_without_syncs(disk: Disk, tmp_path: Path, data: str, durability: str) -> None:
    async with running_writer(data or tmp_path, durability=durability) as writer:
        await writer.commit(save("a"))
        await writer.synced()
    assert disk.begun == 0


async def test_first_sync_makes_the_name_of_the_log_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def note(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    monkeypatch.setattr("mocketmq.store.database._sync", note)
    monkeypatch.setattr("os.fsync", note)
    async with running_writer(tmp_path) as writer:
        for name in ("a", "b"):
            await writer.commit(save(name))
    assert synced == [tmp_path.name, "mocketmq.db-wal", "mocketmq.db-wal"]


class QuickDisk:
    """A disk with a clock; ``takes_us`` is what the next syncs take. Lists the threads that synced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_us = 1_000
        self.takes_us = QUICK_US
        self.error: OSError | None = None
        self.threads: list[str] = []
        monkeypatch.setattr(Database, "sync", self.sync)
        monkeypatch.setattr("mocketmq.store.wal_syncs.steady_us", lambda: self.now_us)

    def sync(self) -> None:
        self.now_us += self.takes_us
        self.threads.append(threading.current_thread().name.partition("_")[0])
        if self.error:
            raise self.error

    async def save_at_once(self, writer: Writer, name: str) -> bool:
        """Save as for a client that waits for each response. Returns whether the loop has synced at once."""
        await asyncio.sleep(0)  # until the writer's task is idle
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        writer.hold()
        writer.put(save(name), done)
        writer.release(at_once=True)
        was_done = done.done()
        await done
        return was_done


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> QuickDisk:
    return QuickDisk(monkeypatch)


@pytest.fixture
async def quick_writer(quick_disk: QuickDisk, tmp_path: Path) -> AsyncIterator[Writer]:  # noqa: ARG001
    async with running_writer(tmp_path) as writer:
        yield writer


@pytest.mark.interpreted
async def test_the_loop_syncs_a_lone_commit_of_a_quick_disk(
    quick_disk: QuickDisk, quick_writer: Writer
) -> None:
    assert not await quick_disk.save_at_once(quick_writer, "a")  # it is unknown whether the disk is quick
    assert await quick_disk.save_at_once(quick_writer, "b")
    await quick_writer.commit(save("c"))  # not alone
    assert quick_disk.threads == ["wal-sync", "MainThread", "wal-sync"]
    assert await names(quick_writer) == {"a", "b", "c"}


@pytest.mark.interpreted
async def test_the_loop_syncs_only_while_the_last_sync_was_quick(
    quick_disk: QuickDisk, quick_writer: Writer
) -> None:
    quick_disk.takes_us = SLOW_US
    await quick_writer.commit(save("a"))
    quick_disk.takes_us = QUICK_US
    assert not await quick_disk.save_at_once(quick_writer, "b")
    assert await quick_disk.save_at_once(quick_writer, "c")


@pytest.mark.interpreted
@pytest.mark.parametrize("is_on_loop", [True, False])
async def test_slow_syncs_take_at_most_half_a_percent_of_the_loop(
    quick_disk: QuickDisk, quick_writer: Writer, is_on_loop: bool
) -> None:
    await quick_writer.commit(save("a"))
    quick_disk.takes_us = SLOW_US + 1
    if is_on_loop:
        assert await quick_disk.save_at_once(quick_writer, "b")
    else:
        await quick_writer.commit(save("b"))
    quick_disk.takes_us = QUICK_US
    again_us = quick_disk.now_us + 200 * (SLOW_US + 1)
    assert not await quick_disk.save_at_once(quick_writer, "c")
    quick_disk.now_us = again_us - 1
    assert not await quick_disk.save_at_once(quick_writer, "d")
    assert await quick_disk.save_at_once(quick_writer, "e")


async def test_a_sync_that_fails_on_the_loop_fails_waiting_and_future_work(
    quick_disk: QuickDisk, quick_writer: Writer
) -> None:
    await quick_writer.commit(save("a"))
    quick_disk.error = OSError(errno.EIO, "Input/output error")
    with pytest.raises(StoreFailedError, match="a restart shows whether"):
        await quick_disk.save_at_once(quick_writer, "b")
    quick_disk.error = None
    with pytest.raises(StoreFailedError, match="cannot be written"):
        await quick_writer.commit(save("c"))
    assert await names(quick_writer) == {"a", "b"}
