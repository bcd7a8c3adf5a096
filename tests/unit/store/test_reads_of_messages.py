"""Which reads of messages run on the event loop, and what they do if messages are removed meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from mocketmq.clock import Clock
from mocketmq.message.message import Message, draft
from mocketmq.message.properties import tag_hash
from mocketmq.store import transaction_runner
from mocketmq.store.batch import Batch
from mocketmq.store.database import MEMORY, Database
from mocketmq.store.messages import NO_LIMIT, Span, fitting_messages_in, run_of_messages
from mocketmq.store.opening import open_database
from mocketmq.store.queue import Queue
from mocketmq.store.writer import Writer

NOW_US = 1_700_000_000_000_000
BYTES = 1 << 20
HASHES = (tag_hash({"TAGS": "created"}),)


@pytest.fixture
async def database(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """A store with ten messages, whose reads take no time, so that a busy machine moves none to a thread."""
    monkeypatch.setattr(transaction_runner, "steady_us", lambda: 0)
    database = await open_database(MEMORY, "full")
    writer = Writer(database, Clock(0, NOW_US), "127.0.0.1:10911", 0, 0)

    queue = Queue(1, "orders", 0)

    def work(batch: Batch) -> None:
        for _ in range(10):
            batch.append(queue, draft(Message("orders", b"x", properties={"TAGS": "created"}), NOW_US))

    await writer.commit(work)
    yield database
    await writer.close()
    await database.close()


@pytest.mark.parametrize(
    ("span", "on_loop"),
    [
        (Span(Queue(1, "orders", 0), 0, 10), True),
        (Span(Queue(1, "orders", 0), 0, 10, HASHES), False),
        (Span(Queue(1, "orders", 0), 0, 10, retries_of="orders"), False),
    ],
    ids=["all", "tag", "retries"],
)
async def test_only_reads_that_stop_before_the_body_run_on_the_loop(
    database: Database, span: Span, on_loop: bool
) -> None:
    reading = asyncio.create_task(fitting_messages_in(database, [span], 32, BYTES, or_first=True))
    await asyncio.sleep(0)
    assert reading.done() == on_loop
    await reading
    if not span.retries_of:
        pulling = asyncio.create_task(run_of_messages(database, span, 32, BYTES))
        await asyncio.sleep(0)
        assert pulling.done() == on_loop
        assert len((await pulling)[0]) == 10


@pytest.mark.parametrize(("largest", "reads"), [(1, 1), (3, 1), (4, 2), (None, 2)])
async def test_sizes_are_read_only_if_the_messages_might_be_too_large(
    database: Database, monkeypatch: pytest.MonkeyPatch, largest: int | None, reads: int
) -> None:
    statements: list[str] = []
    rows = database.rows

    async def noted(sql: str, parameters: Sequence[object] = (), *, are_few: bool = False) -> list[Any]:
        statements.append(sql)
        return await rows(sql, parameters, are_few=are_few)

    monkeypatch.setattr(database, "rows", noted)
    queue = Queue(1, "orders", 0, largest_body=largest)
    await run_of_messages(database, Span(queue, 0, 10), 10, 30)
    assert len(statements) == reads


class Retention:
    """Removes the first messages between the two reads of messages that fit."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.reads = 0

    async def rows(self, sql: str, parameters: Sequence[object] = (), *, are_few: bool = False) -> list[Any]:
        self.reads += 1
        if self.reads == 2:
            await self.database.transact({"DELETE FROM messages WHERE queue_offset < ?": [(2,)]})
        return await self.database.rows(sql, parameters, are_few=are_few)


async def test_messages_behind_removed_ones_are_found(database: Database) -> None:
    retention: Any = Retention(database)
    found, are_all = await fitting_messages_in(
        retention, [Span(Queue(1, "orders", 0), 0, 10)], 2, NO_LIMIT, or_first=True
    )
    assert ([message.queue_offset for message in found], are_all) == ([2, 3], False)
