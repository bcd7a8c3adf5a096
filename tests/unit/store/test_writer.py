"""The writer: group commit, and which callers a refusal or a failure affects."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mocketmq.clock import Clock
from mocketmq.errors import (
    InternalError,
    InvalidArgumentError,
    StoppingError,
    StoreBusyError,
    StoreUnavailableError,
)
from mocketmq.message.message import Draft, Message, StoredMessage, draft
from mocketmq.store.batch import Batch
from mocketmq.store.database import MEMORY
from mocketmq.store.messages import NO_LIMIT
from mocketmq.store.opening import open_database
from mocketmq.store.queue import Queue
from mocketmq.store.transaction_runner import Rows
from mocketmq.store.write_connection import QUICK_BYTES
from mocketmq.store.writer import Pieces, Until, Work, Writer, WriterLimits
from tests.support.patience import HANGING_S

NOW_US = 1_700_000_000_000_000
SAVE = "INSERT INTO counters VALUES (?, ?)"


@asynccontextmanager
async def running_writer(
    data: Path | str = MEMORY, last_store_us: int = 0, durability: str = "full", **listeners: Any
) -> AsyncIterator[Writer]:
    database = await open_database(str(data), durability)
    writer = Writer(database, Clock(0, NOW_US), "127.0.0.1:10911", 0, last_store_us, **listeners)
    try:
        yield writer
    finally:
        await writer.close()
        await database.close()


@pytest.fixture
async def writer() -> AsyncIterator[Writer]:
    async with running_writer() as writer:
        yield writer


@pytest.fixture
def queue() -> Queue:
    return Queue(1, "orders", 0)


def ready(body: bytes = b"x") -> Draft:
    return draft(Message("orders", body), NOW_US)


def append(queue: Queue, body: bytes = b"x") -> Work:
    return lambda batch: batch.append(queue, ready(body))


def violate(batch: Batch) -> None:
    """Create a row that SQLite refuses only at the write, long after the work was submitted."""
    batch.execute(SAVE, ("broken", None))


async def stored(
    writer: Writer, sql: str = "SELECT log_offset, queue_offset, body FROM messages"
) -> list[object]:
    return [tuple(row) for row in await writer._database.rows(sql)]


# Group commit


async def test_work_arriving_during_a_commit_forms_one_transaction(writer: Writer, queue: Queue) -> None:
    results: list[StoredMessage] = await asyncio.gather(
        *(writer.commit(append(queue, b"%d" % n)) for n in range(500))
    )
    assert writer.commits <= 2
    assert [message.log_offset for message in results] == list(range(500))
    assert await stored(writer) == [(n, n, b"%d" % n) for n in range(500)]


async def test_offsets_rise_without_gaps_and_only_with_the_commit(writer: Writer) -> None:
    queues = [Queue(key, "orders", key) for key in (1, 2)]
    seen: list[tuple[int, int]] = []

    def work(batch: Batch) -> None:
        for queue in (queues[0], queues[1], queues[0]):
            batch.append(queue, ready())
        seen.append((writer.next_log_offset, queues[0].next_offset))

    await asyncio.gather(writer.commit(work), writer.commit(work))
    assert seen == [(0, 0), (0, 0)]
    assert (writer.next_log_offset, queues[0].next_offset, queues[1].next_offset) == (6, 4, 2)


async def test_the_queue_knows_its_largest_body(writer: Writer) -> None:
    queue, loaded = Queue(1, "orders", 0, largest_body=0), Queue(2, "orders", 1)

    def work(batch: Batch) -> None:
        for size in (3, 5, 4):
            batch.append(queue, ready(b"x" * size))
            batch.append(loaded, ready(b"x" * size))

    await writer.commit(work)
    assert (queue.largest_body, loaded.largest_body) == (5, None)
    await writer.commit(append(queue))
    assert queue.largest_body == 5
    moved = Queue(3, "orders", 2, largest_body=0)
    await writer.commit(lambda batch: batch.move(0, moved))
    assert moved.largest_body == NO_LIMIT
    queue.become(Queue(1, "orders", 0, next_offset=9))
    assert queue.largest_body is None, "a restored queue may have larger ones"


async def test_a_full_transaction_is_written_before_more_is_added(writer: Writer, queue: Queue) -> None:
    writer.limits = WriterLimits(batch_rows=10)
    await asyncio.gather(*(writer.commit(append(queue)) for _ in range(100)))
    assert writer.commits == 10
    writer.limits = WriterLimits(batch_bytes=2_000)
    await asyncio.gather(*(writer.commit(append(queue, b"x" * 1_000)) for _ in range(10)))
    assert writer.commits == 15


async def test_exclusive_work_is_alone_in_its_transaction(writer: Writer, queue: Queue) -> None:
    rows: list[int] = []

    def alone(batch: Batch) -> None:
        rows.append(batch.rows)
        batch.execute(SAVE, (f"alone {len(rows)}", 1))

    await asyncio.gather(
        writer.commit(append(queue)),
        writer.commit(alone, alone=True),
        writer.commit(alone, alone=True),
        writer.commit(append(queue)),
        writer.commit(append(queue)),
    )
    assert rows == [0, 0]
    assert writer.commits == 4


async def test_others_run_between_transactions(writer: Writer) -> None:
    turns: list[int] = []
    turn = 0

    def alone(_batch: Batch) -> None:
        turns.append(turn)

    works = [asyncio.create_task(writer.commit(alone, alone=True)) for _ in range(5)]
    while not all(work.done() for work in works):
        turn += 1
        await asyncio.sleep(0)
    assert len(set(turns)) == 5


def in_pieces(queue: Queue, seen: list[int]) -> Work:
    """Append three messages, each in a piece of its own, and note the commits that others see meanwhile."""

    def work(batch: Batch) -> Pieces:
        for _ in range(3):
            asyncio.get_running_loop().call_soon(lambda: seen.append(queue.next_offset))
            batch.append(queue, ready())
            yield
        return "result"

    return work


@pytest.mark.parametrize("until", ["visible", "durable"])
async def test_others_run_between_the_pieces_of_work(writer: Writer, queue: Queue, until: Until) -> None:
    seen: list[int] = []
    first, result, last = await asyncio.gather(
        writer.commit(append(queue)),
        writer.commit(in_pieces(queue, seen), alone=True, until=until),
        writer.commit(append(queue)),
    )
    assert seen == [1, 1, 1]
    assert (first.queue_offset, result, last.queue_offset) == (0, "result", 4)
    assert writer.commits == 3


async def test_work_that_fails_after_some_pieces_stores_nothing(writer: Writer, queue: Queue) -> None:
    undone: list[int] = []

    def failing(batch: Batch) -> Pieces:
        batch.append(queue, ready())
        batch.on_rollback(lambda: undone.append(1))
        yield
        raise InvalidArgumentError("n", 1, "2")

    with pytest.raises(InvalidArgumentError):
        await writer.commit(failing, alone=True)
    assert undone == [1]
    assert (await writer.commit(append(queue))).queue_offset == 0


async def test_store_times_never_go_back(queue: Queue) -> None:
    async with running_writer(last_store_us=NOW_US + 5) as writer:
        first = await writer.commit(append(queue))

        def later(batch: Batch) -> StoredMessage:
            batch.reach(NOW_US + 9)
            batch.reach(NOW_US + 7)
            return batch.append(queue, ready())

        reached = await writer.commit(later)
        after = await writer.commit(append(queue))
    assert [m.store_us - NOW_US for m in (first, reached, after)] == [5, 9, 9]


async def test_commit_changes_memory_before_listeners_and_callers(queue: Queue) -> None:
    order: list[str] = []

    def work(batch: Batch) -> None:
        batch.append(queue, ready())
        batch.on_commit(lambda: order.append(f"applied {queue.next_offset}"))
        batch.on_rollback(lambda: order.append("rolled back"))

    async with running_writer(
        on_arrival=lambda where: order.append(f"arrived {where.next_offset}")
    ) as writer:
        await writer.commit(work)
        order.append("told")
    assert order == ["applied 1", "arrived 1", "told"]


async def test_listeners_get_the_messages_of_each_commit(queue: Queue) -> None:
    other, told = Queue(2, "orders", 1), []

    def work(batch: Batch) -> None:
        batch.append(queue, ready(b"123"))
        batch.append(other, ready(b"1"))
        batch.append(queue, ready(b"12"))

    async with running_writer(
        on_stored=lambda appended, took_us: told.append((list(appended), took_us >= 0))
    ) as writer:
        await writer.commit(work)
        await writer.commit(lambda _batch: None)
        with pytest.raises(StoreUnavailableError):
            await writer.commit(violate)
        await writer.commit(append(queue))
    assert told == [([(queue, 2, 5), (other, 1, 1)], True), ([(queue, 1, 1)], True)]


# Refusals and failures


async def test_refusing_work_does_not_affect_other_work(writer: Writer, queue: Queue) -> None:
    def refuse(_batch: Batch) -> None:
        raise InvalidArgumentError("n", 1, "2")

    def defect(_batch: Batch) -> None:
        raise ZeroDivisionError

    results = await asyncio.gather(
        writer.commit(append(queue)),
        writer.commit(refuse),
        writer.commit(defect),
        writer.commit(append(queue)),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [
        StoredMessage,
        InvalidArgumentError,
        InternalError,
        StoredMessage,
    ]
    assert len(await stored(writer)) == 2


async def test_a_failed_transaction_fails_only_its_callers(writer: Writer, queue: Queue) -> None:
    undone: list[int] = []

    def failing(batch: Batch) -> None:
        batch.append(queue, ready())
        batch.on_commit(lambda: undone.append(99))
        batch.on_rollback(lambda: undone.append(queue.next_offset))
        violate(batch)

    before = await writer.commit(append(queue, b"before"))
    together = await asyncio.gather(
        writer.commit(append(queue)),
        writer.commit(failing),
        writer.commit(append(queue)),
        return_exceptions=True,
    )
    after = await writer.commit(append(queue, b"after"))
    assert all(isinstance(error, StoreUnavailableError) for error in together)
    assert "NOT NULL constraint failed: counters.value" in str(together[1])
    assert (after.log_offset, after.queue_offset) == (before.log_offset + 1, before.queue_offset + 1)
    assert await stored(writer) == [(0, 0, b"before"), (1, 1, b"after")]
    assert await stored(writer, "SELECT * FROM counters") == []
    assert undone == [1]
    assert (writer.commits, writer.failures) == (2, 1)


async def test_a_full_disk_fails_writes_until_there_is_room(tmp_path: Path, queue: Queue) -> None:
    async with running_writer(tmp_path) as writer:
        await writer.commit(append(queue, b"before"))
        connection, *_ = writer._database._connections
        [(pages,)] = await connection.execute_fetchall("PRAGMA page_count")
        await connection.execute_fetchall(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreUnavailableError, match="database or disk is full"):
            await writer.commit(append(queue, b"x" * 1_000_000))
        await writer.commit(append(queue, b"small"))
        await connection.execute_fetchall(f"PRAGMA max_page_count = {pages + 1_000}")
        await writer.commit(append(queue, b"y" * 1_000_000))
        assert await stored(writer, "SELECT queue_offset, length(body) FROM messages") == [
            (0, 6),
            (1, 5),
            (2, 1_000_000),
        ]


async def test_work_beyond_the_limit_is_refused_at_once(writer: Writer, queue: Queue) -> None:
    writer.limits = WriterLimits(waiting=10)
    results = await asyncio.gather(*(writer.commit(append(queue)) for _ in range(15)), return_exceptions=True)
    assert [isinstance(result, StoreBusyError) for result in results] == [False] * 10 + [True] * 5
    await writer.commit(append(queue))
    assert len(await stored(writer)) == 11


async def test_a_cancelled_caller_returns_only_when_its_work_is_done(
    writer: Writer, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller may hold a lock, and the guarded state changes only at the commit."""
    writing, disk, transact = asyncio.Event(), asyncio.Event(), writer._database.transact

    async def slow(statements: Mapping[str, Rows], *size: Any) -> None:
        writing.set()
        await disk.wait()
        await transact(statements, *size)

    monkeypatch.setattr(writer._database, "transact", slow)
    waiting = asyncio.create_task(writer.commit(append(queue)))
    await writing.wait()
    waiting.cancel()
    assert not (await asyncio.wait({waiting}, timeout=0.01))[0]
    disk.set()
    await asyncio.wait({waiting})
    assert (waiting.cancelled(), queue.next_offset) == (True, 1)


# Committing at once


def put_and_release(writer: Writer, *works: Work, at_once: bool = True) -> list[asyncio.Future[Any]]:
    """Hold the writer, put the works, and release it."""
    results: list[asyncio.Future[Any]] = [asyncio.get_running_loop().create_future() for _ in works]
    writer.hold()
    for work, result in zip(works, results, strict=True):
        writer.put(work, result)
    writer.release(at_once=at_once)
    return results


async def test_held_work_is_committed_before_release_returns(writer: Writer, queue: Queue) -> None:
    await writer.commit(append(queue))
    commits = writer.commits
    results = put_and_release(writer, append(queue), append(queue))
    assert [result.result().queue_offset for result in results] == [1, 2]
    assert (writer.commits, writer.waiting) == (commits + 1, 0)
    assert len(await stored(writer)) == 3


async def test_held_work_that_is_not_released_at_once_joins_later_work(writer: Writer, queue: Queue) -> None:
    await writer.commit(append(queue))
    commits = writer.commits
    [first] = put_and_release(writer, append(queue), at_once=False)
    [second] = put_and_release(writer, append(queue))
    assert not first.done()
    assert [(await first).queue_offset, (await second).queue_offset] == [1, 2]
    assert writer.commits == commits + 1


async def test_released_work_waits_for_the_transaction_in_progress(
    writer: Writer, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, disk, transact = asyncio.Event(), asyncio.Event(), writer._database.transact

    async def slow(statements: Mapping[str, Rows], *size: Any) -> None:
        writing.set()
        await disk.wait()
        await transact(statements, *size)

    monkeypatch.setattr(writer._database, "transact", slow)
    first = asyncio.create_task(writer.commit(append(queue)))
    await writing.wait()
    [second] = put_and_release(writer, append(queue))
    assert not second.done()
    disk.set()
    assert (await first).queue_offset < (await second).queue_offset


async def test_released_work_too_large_for_the_loop_is_left_to_a_thread(writer: Writer, queue: Queue) -> None:
    await writer.commit(append(queue))
    large = append(queue, b"x" * (QUICK_BYTES + 1))
    [result] = put_and_release(writer, large)
    assert not result.done()
    [later] = put_and_release(writer, append(queue))
    assert [(await result).queue_offset, (await later).queue_offset] == [1, 2]


async def test_released_work_that_fails_is_rolled_back_at_once(writer: Writer, queue: Queue) -> None:
    await writer.commit(append(queue))
    refused, broken = put_and_release(writer, append(queue), violate)
    assert isinstance(refused.exception(), StoreUnavailableError)
    assert isinstance(broken.exception(), StoreUnavailableError)
    assert (await writer.commit(append(queue))).queue_offset == 1


async def test_released_work_that_wants_its_own_transaction_is_not_forgotten(
    writer: Writer, queue: Queue
) -> None:
    await writer.commit(append(queue))
    alone = asyncio.get_running_loop().create_future()
    writer.hold()
    writer.put(append(queue), asyncio.get_running_loop().create_future())
    writer.put(append(queue), alone, alone=True)
    writer.release(at_once=True)
    assert (await asyncio.wait_for(alone, HANGING_S)).queue_offset == 2


async def test_released_work_in_pieces_is_left_to_the_task(writer: Writer, queue: Queue) -> None:
    await writer.commit(append(queue))
    result = asyncio.get_running_loop().create_future()
    writer.hold()
    writer.put(in_pieces(queue, []), result, alone=True)
    writer.release(at_once=True)
    assert await asyncio.wait_for(result, HANGING_S) == "result"
    assert queue.next_offset == 4


@pytest.mark.parametrize("puts", [False, True])
async def test_a_defect_after_a_commit_at_once_ends_the_writer(queue: Queue, puts: bool) -> None:
    async with running_writer() as writer:

        def fail() -> None:
            if puts:
                writer.put(append(queue), asyncio.get_running_loop().create_future())
            raise RuntimeError("a defect")

        await writer.commit(append(queue))
        writer.add_change_listener(fail)
        put_and_release(writer, append(queue))
        await ends_by_defect(writer)


async def test_a_defect_after_a_failure_at_once_ends_the_writer(queue: Queue) -> None:
    def fail() -> None:
        raise RuntimeError("a defect")

    def violate_and_fail(batch: Batch) -> None:
        batch.on_rollback(fail)
        violate(batch)

    async with running_writer() as writer:
        await writer.commit(append(queue))
        put_and_release(writer, violate_and_fail)
        await ends_by_defect(writer)


async def ends_by_defect(writer: Writer) -> None:
    with pytest.raises(RuntimeError, match="a defect"):
        await writer.task
    writer.task = asyncio.create_task(asyncio.sleep(0))  # for the end of the test


# Closing


async def test_closing_finishes_waiting_work_and_refuses_new_work(queue: Queue) -> None:
    async with running_writer() as writer:
        tasks = [asyncio.create_task(writer.commit(append(queue))) for _ in range(50)]
        await writer.commit(append(queue))
        await writer.close()
        assert all(task.done() for task in tasks)
        with pytest.raises(StoppingError):
            await writer.commit(append(queue))
        await writer.close()
        assert queue.next_offset == 51


async def test_offsets_continue_after_a_restart(tmp_path: Path, queue: Queue) -> None:
    async with running_writer(tmp_path) as writer:
        await writer.commit(append(queue))
    async with running_writer(tmp_path) as writer:
        assert len(await stored(writer)) == 1
