"""Restores of what is kept in memory: transactions, held deliveries, lite topics, waiting consumers."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.broker.registry.topic import PERM_READ, PERM_WRITE
from mocketmq.broker.registry.topic_config import PLAIN
from mocketmq.broker.snapshots import differences, snapshots
from mocketmq.errors import SnapshotQuotaError, StoreUnavailableError
from mocketmq.faults.rule import FaultRule
from mocketmq.schedule.timed_scheme import KeptRecord
from mocketmq.store.snapshot_rows import empty_snapshot
from tests.broker import half_messages as popped
from tests.broker.test_checked_halves import prepare
from tests.support.brokers import (
    S,
    acknowledge,
    bodies,
    give_back,
    receive,
    running_broker,
    send,
    visible,
)
from tests.support.patience import PATIENCE_S
from tests.support.second_directories import scheme_of, send_in


async def test_half_messages_are_open_again_and_decided_once(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        halves, snapshots = broker.half_messages, broker.snapshots
        half = await prepare(broker, "checked")
        other = await popped.prepare(broker, "popped")
        await snapshots.save("here")
        for _ in range(2):
            await halves.decide(half.stored.unique_key, commit=True)
            assert len((await popped.commit(broker, [other])).done) == 1
            assert sorted(bodies(await visible(broker))) == ["checked", "popped"]
            await snapshots.restore("here")
            assert await visible(broker) == []
        await broker.mover.advance(300 * S)
        receipts = [*broker.half_messages.open()]
        assert [
            receipt.times > 0 for receipt in receipts if receipt.log_offset == half.stored.log_offset
        ] == [True]


async def test_held_deliveries_are_held_and_released_again(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        rule = FaultRule(do="deliver-late", by="10s", name="late")
        await broker.faults.add_rule(rule)
        await send(broker, "held", level=1)
        await broker.mover.advance(2 * S)
        await broker.snapshots.save("here")
        for _ in range(2):
            assert (await visible(broker), broker.pending.count) == ([], 1)
            assert broker.faults.get("late").fired == 1
            await broker.mover.advance(10 * S)
            assert bodies(await visible(broker)) == ["held"]
            await broker.faults.clear()
            await broker.snapshots.restore("here")


async def test_lite_topics_exist_with_their_messages_and_expire_again(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        topics = broker.registry.topics
        config = PLAIN.typed("lite").with_lite_expiration(30)
        await topics.put("chats", 1, 1, PERM_READ | PERM_WRITE, config)
        await send(broker, "1", topic="chats", __LITE_TOPIC="old")
        await broker.snapshots.save("here")
        for _ in range(2):
            assert [one.name for one in topics.lites.of("chats")] == ["old"]
            await send(broker, "2", topic="chats", __LITE_TOPIC="new")
            sent = await send(broker, "3", topic="chats", __LITE_TOPIC="old")
            assert sent.stored.queue_offset == 1
            await broker.mover.advance(31 * 60 * S)
            assert [*topics.lites.of("chats")] == []
            await broker.snapshots.restore("here")


async def test_delay_offsets_that_the_profile_has_not_saved_are_in_the_snapshot(anywhere: Path | str) -> None:
    """Of a kill, RocketMQ 4's profile repeats deliveries; a restore does not."""
    async with running_broker(anywhere, profile="rocketmq4") as broker:
        await send(broker, "one", level=1)
        await broker.mover.advance(2 * S)
        assert bodies(await visible(broker)) == ["one"]
        await broker.snapshots.save("here")
        await broker.snapshots.restore("here")
        assert broker.pending.count == 0
        await broker.mover.advance(60 * S)
        assert bodies(await visible(broker)) == ["one"]


async def test_retries_and_dead_letters_are_taken_back(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        await send(broker, "poison")
        await give_back(broker, await receive(broker))
        await broker.snapshots.save("here")
        for _ in range(2):
            await broker.mover.advance(60 * S)
            [again] = await receive(broker)
            assert again.reconsumed == 1
            await give_back(broker, [again], -1)
            assert bodies(await visible(broker, "%DLQ%billing")) == ["poison"]
            await broker.snapshots.restore("here")
            assert broker.registry.topics.find_topic("%DLQ%billing") is None


async def test_a_waiting_receiver_gets_nothing_of_before_and_the_next_message(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        await send(broker, "one")
        await acknowledge(broker, await receive(broker))
        await broker.snapshots.save("here")
        waiting = asyncio.create_task(receive(broker, wait_s=60))
        async with asyncio.timeout(PATIENCE_S):
            while not broker.polls.count:  # noqa: ASYNC110
                await asyncio.sleep(0)
            await broker.snapshots.restore("here")
            assert await waiting == []
        await send(broker, "two")
        assert bodies(await receive(broker)) == ["two"]


async def test_sends_beside_restores_are_stored_before_or_after_each(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        await send(broker, "first", queue=0)
        await broker.snapshots.save("here")

        async def produce() -> None:
            for number in range(60):
                await send(broker, str(number), queue=0)

        producer = asyncio.create_task(produce())
        for _ in range(5):
            await broker.snapshots.restore("here")
        await producer
        found = await visible(broker)
        numbers = [int(body) for body in bodies(found)[1:]]
        assert bodies(found)[0] == "first"
        assert numbers == [*range(60 - len(numbers), 60)]
        assert [one.queue_offset for one in found] == [*range(len(found))]


async def test_queries_run_beside_saves_and_restores(anywhere: Path | str) -> None:
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT i FROM n"
    async with running_broker(anywhere) as broker:
        await send(broker, "one")
        for act in (broker.snapshots.save, broker.snapshots.restore):
            query = asyncio.create_task(broker.store.database.rows(many))
            await asyncio.sleep(0)
            await act("here")
            assert len(await query) == 100_000
        assert bodies(await visible(broker)) == ["one"]


async def rows_of(broker: Broker) -> list[tuple[object, ...]]:
    """The rows of all messages."""
    return await broker.store.database.rows("SELECT * FROM messages ORDER BY log_offset")


async def test_snapshots_that_share_messages_are_restored_exactly(anywhere: Path | str) -> None:
    """A restore leaves shared messages in the store, and exchanges those that got the same log offsets."""
    async with running_broker(anywhere) as broker:
        snapshots, saved = broker.snapshots, {}

        async def save(name: str, **more: bool) -> None:
            await snapshots.save(name, **more)
            saved[name] = await rows_of(broker)

        for number in range(5):
            await send(broker, f"shared {number}", queue=0, topic="shared")
            await send(broker, f"deleted {number}", queue=0, topic="deleted")
        await save("all")
        await send(broker, "one", queue=0, topic="shared", UNIQ_KEY="0A01")
        await save("one")
        await snapshots.restore("all")
        await send(broker, "two", queue=0, topic="shared", UNIQ_KEY="0A01")
        await save("two")
        await broker.reset.delete_topic("deleted")
        await save("less")
        await broker.reset.all()
        await save("nothing")
        for name in ("two", "one", "all", "less", "one", "nothing", "less", "all", "nothing", "two"):
            await snapshots.restore(name)
            assert await rows_of(broker) == saved[name], name
            await send(broker, name, queue=0, topic="shared")
        assert len({len(rows) for rows in saved.values()}) == 4


async def test_a_restore_of_shared_messages_writes_only_the_others(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        await asyncio.gather(*(send(broker, "x" * 1_000, queue=0) for _ in range(1_000)))
        await broker.snapshots.save("here")
        await send(broker, "more", queue=0)
        changes = broker.store.database.direct.total_changes
        await broker.snapshots.restore("here")
        assert broker.store.database.direct.total_changes - changes < 200
        assert len(await rows_of(broker)) == 1_000


async def test_watchers_see_the_restored_state() -> None:
    async with running_broker() as broker:
        await broker.snapshots.save("here")
        for number in range(3):
            await send(broker, str(number))
        async with asyncio.timeout(PATIENCE_S):
            watch = broker.live.watch()
            looked = await anext(watch)
            assert looked.end == 3
            await broker.snapshots.restore("here")
            while looked.end != 0:
                looked = await anext(watch)
            await send(broker, "new")
            while looked.end != 1:
                looked = await anext(watch)
            await watch.aclose()


async def test_a_comparison_whose_client_goes_away_leaves_the_store_usable(
    anywhere: Path | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that copies the rows cannot be cancelled, and is inside a transaction."""
    async with running_broker(anywhere) as broker:
        await send_in(broker, 60_000, "timed")
        await broker.snapshots.save("here")
        copying, going_on = threading.Event(), threading.Event()
        scheme = scheme_of(broker)
        choose = scheme.choose_records

        def choose_slowly() -> Callable[[], Iterable[KeptRecord]]:
            read = choose()

            def read_slowly() -> Iterator[KeptRecord]:
                copying.set()
                going_on.wait(PATIENCE_S)
                yield from read()

            return read_slowly

        monkeypatch.setattr(scheme, "choose_records", choose_slowly)
        comparing = asyncio.create_task(broker.snapshots.differences("here", None))
        assert await asyncio.to_thread(copying.wait, PATIENCE_S)
        comparing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await comparing
        sending = asyncio.create_task(send(broker, "meanwhile"))
        await asyncio.sleep(0)
        going_on.set()
        await sending
        assert (await broker.snapshots.save("later")).manifest.messages == 1
        await broker.snapshots.restore("here")
        assert (await visible(broker), broker.pending.count) == ([], 1)


async def test_a_store_that_is_too_large_is_refused_before_it_is_copied(
    anywhere: Path | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(anywhere) as broker:
        await broker.snapshots.save("here")
        monkeypatch.setattr(snapshots, "MAX_BYTES", await broker.store.database.used_bytes() + 50_000)
        await send_in(broker, 60_000, "x" * 60_000)
        for copy in (broker.snapshots.save("later"), broker.snapshots.differences("here", None)):
            with pytest.raises(SnapshotQuotaError, match=r"at least [0-9]+ bytes; allowed: "):
                await copy
        await send(broker, "x" * 60_000)
        monkeypatch.setattr(snapshots, "attached_snapshot", None)
        for copy in (broker.snapshots.save("later"), broker.snapshots.differences("here", None)):
            with pytest.raises(SnapshotQuotaError, match=r"at least [0-9]+ bytes; allowed: "):
                await copy
        monkeypatch.undo()
        assert (await broker.snapshots.save("later")).manifest.pending == 1


async def test_sends_that_wait_for_a_save_are_stored_when_it_fails(
    anywhere: Path | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(anywhere) as broker:
        for _ in range(2):
            await send_in(broker, 60_000, "timed")
        copying, going_on = threading.Event(), threading.Event()
        scheme = scheme_of(broker)
        choose = scheme.choose_records

        def choose_in_vain() -> Callable[[], Iterable[KeptRecord]]:
            read = choose()

            def read_in_vain() -> Iterator[KeptRecord]:
                yield from read()
                copying.set()
                going_on.wait(PATIENCE_S)
                raise SnapshotQuotaError("the snapshot would be too large")

            return read_in_vain

        monkeypatch.setattr(scheme, "choose_records", choose_in_vain)
        saving = asyncio.create_task(broker.snapshots.save("here"))
        assert await asyncio.to_thread(copying.wait, PATIENCE_S)
        sending = asyncio.create_task(send(broker, "meanwhile"))
        await asyncio.sleep(0)
        going_on.set()
        with pytest.raises(SnapshotQuotaError):
            await saving
        await sending
        assert bodies(await visible(broker)) == ["meanwhile"]
        monkeypatch.undo()
        assert (await broker.snapshots.save("here")).manifest.pending == 2


def test_pending_messages_are_compared_by_the_key_of_their_table() -> None:
    """Otherwise the time grows with the square of their number."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for name in ("a", "b"):
            connection.execute(f"ATTACH ':memory:' AS {name}")
            connection.deserialize(empty_snapshot(), name=name)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {differences._KEPT.format('b', 'a')}").fetchall()
        assert [row[3] for row in plan if row[3].startswith(("SCAN o", "SEARCH o"))] == [
            "SEARCH o USING PRIMARY KEY (due_ms=? AND number=? AND key_hash=?)"
        ]


async def test_a_failure_after_the_restore_says_that_the_state_was_replaced(
    anywhere: Path | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(anywhere) as broker:
        await send(broker, "one", level=1)
        await broker.snapshots.save("here")
        await send(broker, "two")

        async def refuse() -> None:
            raise StoreUnavailableError("the disk is full")

        monkeypatch.setattr(broker.half_messages, "load", refuse)
        with pytest.raises(StoreUnavailableError, match=r"here was restored, but .*: the disk is full"):
            await broker.snapshots.restore("here")
        assert await visible(broker) == []
        monkeypatch.undo()
        await broker.snapshots.restore("here")
        await broker.mover.advance(2 * S)
        assert bodies(await visible(broker)) == ["one"]


async def test_a_restore_that_fails_after_its_commit_shares_no_messages(
    anywhere: Path | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are those of the snapshot, but the memory is not."""
    async with running_broker(anywhere) as broker:
        await send(broker, "one")
        manifest = (await broker.snapshots.save("here")).manifest
        restorer = broker.snapshots._restorer
        assert restorer.lineage.shared_end(manifest.sha256) == 1

        async def fail() -> None:
            raise RuntimeError("a defect")

        with monkeypatch.context() as patch:
            patch.setattr(broker.registry.groups, "reload", fail)
            with pytest.raises(RuntimeError, match="a defect"):
                restorer._reload(manifest, [])  # in the writer's task, the error would stop the broker
        assert restorer.lineage.shared_end(manifest.sha256) == 0
        await broker.snapshots.restore("here")
        assert restorer.lineage.shared_end(manifest.sha256) == 1


async def test_a_snapshot_that_a_failure_left_attached_is_detached(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        broker.store.database.direct.execute("ATTACH ':memory:' AS snapshot")
        await send(broker, "one")
        assert (await broker.snapshots.save("here")).manifest.messages == 1
        await broker.snapshots.restore("here")


async def test_a_snapshot_that_the_disk_refuses_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker:
        await broker.snapshots.save("here")
        await send(broker, "one")

        def refuse(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("mocketmq.broker.snapshots.shelf.os.fsync", refuse)
        with pytest.raises(StoreUnavailableError, match="No space left on device; nothing was changed"):
            await broker.snapshots.save("here", replace=True)
        monkeypatch.undo()
        [kept], _ = await broker.snapshots.listed()
        assert kept.manifest.messages == 0
        assert [path.name for path in (tmp_path / "snapshots").iterdir()] == ["here.snapshot"]
