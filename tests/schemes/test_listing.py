"""Resets and snapshots do their work with many pending messages in a thread, or in small transactions."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.schedule import timed_scheme
from mocketmq.settings import TimedSchemeName
from mocketmq.store.database import Database
from mocketmq_compat.delay import pending_entries
from mocketmq_compat.delay.delayed_file import Entry
from tests.support.brokers import TOPIC, S, bodies, rows, running_broker, visible
from tests.support.second_directories import listed, scheme_of, send_in

COUNT = 300
FEW_ROWS = 150


class LoopWork:
    """What the event loop does for many messages: calls of the store, and rows of transactions."""

    def __init__(self, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.most_rows = 0
        store, loop = scheme_of(broker).store, threading.get_ident()
        transact = Database.transact

        def noted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
            def note(*given: Any) -> Any:
                if threading.get_ident() == loop:
                    self.calls.append(name)
                return call(*given)

            return note

        async def count(database: Database, statements: Mapping[str, Sequence[Any]], *more: Any) -> None:
            self.most_rows = max(self.most_rows, sum(map(len, statements.values())))
            await transact(database, statements, *more)

        for name in ("all", "first_records", "forget", "holds", "read", "write"):
            monkeypatch.setattr(store, name, noted(name, getattr(store, name)))
        monkeypatch.setattr(Database, "transact", count)


async def test_many_messages_are_no_work_for_the_event_loop(
    scheme: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_entries, "SIZE", 4)
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        await asyncio.gather(*(send_in(broker, 100 * number) for number in range(1, COUNT + 1)))
        work = LoopWork(broker, monkeypatch)
        await broker.snapshots.save("full")
        await broker.reset.all()
        await broker.snapshots.save("empty")
        await broker.snapshots.restore("full")
        await broker.snapshots.restore("empty")
        await broker.snapshots.restore("full")
        assert (broker.schemes.pending, work.calls) == (COUNT, [])
        assert work.most_rows < FEW_ROWS
        assert (await broker.mover.advance(40 * S)).fired == COUNT


async def test_many_messages_of_a_topic_are_cancelled_in_small_transactions(
    scheme: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_entries, "SIZE", 30)
    monkeypatch.setattr(timed_scheme, "MAX_AT_ONCE", 20)
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        stays = await send_in(broker, 20_000, "stays", topic="other")
        await asyncio.gather(*(send_in(broker, 100 * number) for number in range(1, COUNT + 1)))
        work = LoopWork(broker, monkeypatch)
        assert await broker.reset.delete_topic(TOPIC) == COUNT
        assert (broker.schemes.pending, broker.schemes.next_delivery_us()) == (1, stays.stored.due_us)
        assert {*work.calls} <= {"holds"}
        assert work.most_rows < FEW_ROWS
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        assert (await broker.mover.advance(40 * S)).fired == 1
        assert bodies(await visible(broker, "other")) == ["stays"]
    kinds = "SELECT kind, count(*) AS n FROM messages GROUP BY 1 ORDER BY 1"
    assert rows(tmp_path, kinds) == [{"kind": "cancelled", "n": COUNT}, {"kind": "delivered", "n": 1}]


@pytest.fixture
def sends_meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Broker, str], None]:
    """Send a message right after the next list of all pending messages was read."""

    def prepare(broker: Broker, body: str) -> None:
        store, loop = scheme_of(broker).store, asyncio.get_running_loop()
        read = store.all

        def read_and_send() -> Iterator[Entry]:
            entries = [*read()]
            monkeypatch.setattr(store, "all", read)
            asyncio.run_coroutine_threadsafe(send_in(broker, 5_000, body), loop).result()
            return iter(entries)

        monkeypatch.setattr(store, "all", read_and_send)

    return prepare


async def test_messages_sent_during_the_list_are_reset_saved_and_replaced(
    scheme: TimedSchemeName, tmp_path: Path, sends_meanwhile: Callable[[Broker, str], None]
) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        await send_in(broker, 1_000, "one")
        sends_meanwhile(broker, "two")
        await broker.snapshots.save("both")
        await send_in(broker, 1_000, "three")
        sends_meanwhile(broker, "four")
        await broker.snapshots.restore("both")
        assert sorted(await listed(broker)) == ["one", "two"]
        sends_meanwhile(broker, "five")
        await broker.reset.all()
        assert broker.schemes.pending == 0
        await broker.snapshots.restore("both")
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        assert (await broker.mover.advance(10 * S)).fired == 2
        assert bodies(await visible(broker)) == ["one", "two"]
