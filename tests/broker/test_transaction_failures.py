"""Decisions about half messages when the store fails, the broker restarts, or two of them race."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.consuming.receiver import InFlightMessage
from mocketmq.broker.consuming.selection import Selection
from mocketmq.broker.transactions.popped_halves import LIFETIME_US
from mocketmq.errors import (
    MessageNotFoundError,
    ReceiptSpentError,
    StoreBusyError,
    StoreUnavailableError,
    TopicNotFoundError,
    UndecidableError,
)
from mocketmq.message.message import Draft, Message, StoredMessage
from mocketmq.message.message_id import offset_message_id
from mocketmq.message.properties import (
    TIMER_DELAY_MS,
)
from mocketmq.store.queue import Queue
from mocketmq.store.writer import Work, WriterLimits
from tests.broker.half_messages import IMMUNITY_US, Decide, commit, pop, prepare, rollback
from tests.support.brokers import (
    TOPIC,
    Refusing,
    S,
    bodies,
    rows,
    running_broker,
    send,
    visible,
)
from tests.support.patience import PATIENCE_S


async def test_unstored_half_message_does_not_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        await rollback(broker, [await prepare(broker, "first")])
        async with Refusing(broker, monkeypatch):
            with pytest.raises(StoreUnavailableError):
                await prepare(broker)
        await prepare(broker, "next")
        await broker.mover.advance(IMMUNITY_US)
        assert bodies(await pop(broker)) == ["next"]


@pytest.mark.parametrize("decide", [commit, rollback])
async def test_failed_decision_has_no_effect(decide: Decide, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker() as broker:
        half = await prepare(broker)
        async with Refusing(broker, monkeypatch):
            with pytest.raises(StoreUnavailableError):
                await decide(broker, [half])
        assert await visible(broker) == []
        await broker.mover.advance(IMMUNITY_US)
        [asked] = await pop(broker)
        assert (await commit(broker, [asked])).done
        assert bodies(await visible(broker)) == ["half"]


async def test_a_failed_late_rollback_is_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        await prepare(broker)
        await broker.mover.advance(LIFETIME_US - 1)
        async with Refusing(broker, monkeypatch):
            with pytest.raises(StoreUnavailableError):
                await broker.mover.advance(1)
        assert broker.half_messages.abandoned == 0
        await broker.mover.advance(1)
        assert (broker.half_messages.abandoned, await pop(broker)) == (1, [])


async def test_each_decision_is_one_transaction() -> None:
    async with running_broker() as broker:
        await prepare(broker)
        for count in (1, 2, 3):
            before = broker.store.writer.commits
            halves = [await prepare(broker) for _ in range(count)]
            assert broker.store.writer.commits == before + count
            await commit(broker, halves)
            assert broker.store.writer.commits == before + count + 1


async def test_half_messages_survive_a_restart(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        kept = await prepare(broker, "kept")
        await broker.mover.advance(1)
        asked, gone = await prepare(broker, "asked"), await prepare(broker, "gone")
        await rollback(broker, [gone])
    async with running_broker(tmp_path) as broker:
        assert (await pop(broker), await visible(broker)) == ([], [])
        assert broker.popped_halves.next_due_us() == kept.stored.store_us + LIFETIME_US
        assert (await commit(broker, [kept])).done
        await prepare(broker, "new")
        assert (await rollback(broker, [gone])).failed
    async with running_broker(tmp_path) as broker:
        await broker.mover.advance(IMMUNITY_US)
        assert bodies(await visible(broker)) == ["kept"]
        popped = await pop(broker)
        assert bodies(popped) == ["asked", "new"]
        assert (await commit(broker, [asked])).failed
    async with running_broker(tmp_path) as broker:
        assert (await commit(broker, popped[:1])).done
        assert bodies(await visible(broker)) == ["kept", "asked"]
        await broker.mover.advance(LIFETIME_US)
        assert (broker.half_messages.abandoned, await pop(broker)) == (1, [])


async def test_half_and_receipt_are_stored_in_one_transaction(tmp_path: Path) -> None:
    """A kill must leave both or neither, because a half message without receipt would be popped at once."""
    async with running_broker(tmp_path) as broker:
        await prepare(broker)
        seen: list[set[str]] = []
        transact = broker.half_messages._database.transact

        async def watch(statements: Any, *size: Any) -> None:
            seen.append({sql.split()[2] for sql, added in statements.items() if added})
            await transact(statements, *size)

        broker.half_messages._database.transact = watch  # type: ignore[method-assign, assignment]
        half = await prepare(broker)
        await commit(broker, [half])
    assert seen[:2] == [{"messages", "receipts", "progress"}, {"messages", "SET"}]


@pytest.mark.parametrize("comes_first", ["due time", "second commit"])
async def test_failed_write_before_the_half_is_settled_repeats_no_message(
    monkeypatch: pytest.MonkeyPatch, comes_first: str
) -> None:
    async with running_broker() as broker:
        half = await prepare(broker, **{TIMER_DELAY_MS: "60000"})
        async with Refusing(broker, monkeypatch):
            with pytest.raises(StoreUnavailableError):
                await commit(broker, [half])
        assert (broker.pending.count, await visible(broker)) == (1, [])
        await broker.mover.advance(60 * S if comes_first == "due time" else IMMUNITY_US)
        assert len(await visible(broker)) == (comes_first == "due time")
        assert (await commit(broker, await pop(broker))).done
        await broker.mover.advance(60 * S)
        assert (bodies(await visible(broker)), await pop(broker)) == (["half"], [])
        assert broker.pending.count == 0


@pytest.mark.parametrize("is_due", [False, True])
async def test_kill_before_the_half_is_settled_repeats_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_due: bool
) -> None:
    async with running_broker(tmp_path) as broker:
        half = await prepare(broker, **{TIMER_DELAY_MS: "60000"})
        async with Refusing(broker, monkeypatch):
            with pytest.raises(StoreUnavailableError):
                await commit(broker, [half])
        if is_due:
            await broker.mover.advance(60 * S)
    async with running_broker(tmp_path) as broker:
        assert broker.pending.count == (not is_due)
        assert broker.half_messages.open() == []
        await broker.mover.advance(60 * S)
        assert (bodies(await visible(broker)), await pop(broker)) == (["half"], [])
    assert rows(tmp_path, "SELECT outcome FROM receipts") == [{"outcome": "committed"}]


@pytest.mark.parametrize("is_checked", [True, False])
async def test_half_message_saved_before_a_failed_write_can_only_be_committed(
    monkeypatch: pytest.MonkeyPatch, is_checked: bool
) -> None:
    async with running_broker() as broker:
        if is_checked:
            message = Message(TOPIC, b"half", {TIMER_DELAY_MS: "60000"})
            half = (await broker.half_messages.prepare_checked(message, "makers")).stored
        else:
            half = (await prepare(broker, **{TIMER_DELAY_MS: "60000"})).stored
        message_id = offset_message_id(half.store_host, half.log_offset)
        async with Refusing(broker, monkeypatch):
            with pytest.raises(StoreUnavailableError):
                await broker.half_messages.decide(message_id, commit=True)
        with pytest.raises(UndecidableError):
            await broker.half_messages.decide(message_id, commit=False)
        await broker.mover.advance(IMMUNITY_US)
        assert len((await rollback(broker, await pop(broker))).failed) == (not is_checked)
        await broker.mover.advance(LIFETIME_US)
        counts = broker.half_messages
        assert (counts.open(), counts.committed, counts.rolled_back, counts.abandoned) == ([], 1, 0, 0)
        assert bodies(await visible(broker)) == ["half"]


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("comes_first", ["pop", "decision"])
async def test_a_pop_during_a_decision_by_id_has_one_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes_first: str, is_commit: bool
) -> None:
    async with running_broker(tmp_path) as broker:
        half = (await prepare(broker)).stored
        await broker.mover.advance(IMMUNITY_US)
        database = broker.half_messages._database
        transact, begun, go = database.transact, asyncio.Event(), asyncio.Event()

        async def held_up(statements: Any, *size: Any) -> None:
            begun.set()
            await go.wait()
            await transact(statements, *size)

        monkeypatch.setattr(database, "transact", held_up)
        message_id = offset_message_id(half.store_host, half.log_offset)
        steps: list[Awaitable[object]] = [
            pop(broker),
            broker.half_messages.decide(message_id, commit=is_commit),
        ]
        before = asyncio.create_task(send(broker, topic="another"))  # the two share the next transaction
        await begun.wait()
        tasks = []
        for step in steps if comes_first == "pop" else reversed(steps):
            tasks.append(asyncio.ensure_future(step))
            while not tasks[-1].done() and broker.store.writer.waiting < len(tasks):  # noqa: ASYNC110
                await asyncio.sleep(0)
        go.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        popped, decided = results if comes_first == "pop" else reversed(results)
        assert bool(popped) is isinstance(decided, UndecidableError)
        await before
        assert len(broker.half_messages.open()) == bool(popped)
    assert len(rows(tmp_path, "SELECT * FROM receipts WHERE settled_us IS NULL")) == bool(popped)


async def test_half_message_refused_by_its_scheme_is_not_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        halves = [await prepare(broker), await prepare(broker, **{TIMER_DELAY_MS: "60000"})]

        async def refuse(*_: object) -> StoredMessage:
            raise StoreUnavailableError("no")

        with monkeypatch.context() as patched:
            patched.setattr(broker.schemes.timed(), "keep", refuse)
            with pytest.raises(StoreUnavailableError):
                await commit(broker, halves)
        assert (await visible(broker), broker.pending.count) == ([], 0)
        await broker.mover.advance(IMMUNITY_US)
        assert len((await commit(broker, await pop(broker))).done) == 2
        assert (len(await visible(broker)), broker.pending.count) == (1, 1)


@pytest.mark.interpreted
async def test_a_half_message_popped_just_before_its_late_rollback_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        await prepare(broker)
        await broker.mover.advance(LIFETIME_US - 1)
        popped: list[InFlightMessage] = []
        write = broker.store.writer.commit

        async def after_a_pop(work: Work, **options: Any) -> object:
            monkeypatch.undo()
            popped.extend(await pop(broker))
            return await write(work, **options)

        monkeypatch.setattr(broker.store.writer, "commit", after_a_pop)
        await broker.mover.advance(1)
        assert broker.half_messages.abandoned == 0
        assert (await commit(broker, popped)).done
        assert bodies(await visible(broker)) == ["half"]


@pytest.mark.interpreted
@pytest.mark.parametrize("is_refused", [True, False])
async def test_half_message_popped_during_its_late_rollback_is_rolled_back(
    monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    async with running_broker() as broker:
        database = broker.half_messages._database
        transact, make, has_chosen = database.transact, Selection.select, asyncio.Event()
        await prepare(broker)
        await broker.mover.advance(LIFETIME_US - 1)
        popping: list[asyncio.Task[list[InFlightMessage]]] = []

        async def watched(selection: Selection) -> None:
            await make(selection)
            has_chosen.set()

        async def pop_meanwhile(statements: Any, *size: Any) -> None:
            monkeypatch.setattr(database, "transact", transact)
            popping.append(asyncio.create_task(pop(broker, wait_s=10.0 * is_refused)))
            await has_chosen.wait()
            if is_refused:
                raise StoreUnavailableError("no")
            await transact(statements, *size)

        monkeypatch.setattr(Selection, "select", watched)
        monkeypatch.setattr(database, "transact", pop_meanwhile)
        await asyncio.gather(broker.mover.advance(1), return_exceptions=True)
        popped = await popping[0]
        assert (len(popped), broker.half_messages.abandoned) == ((1, 0) if is_refused else (0, 1))
        assert len((await commit(broker, popped)).done) == len(await visible(broker)) == len(popped)


async def test_a_commit_in_progress_neither_expires_nor_is_rolled_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        half = await prepare(broker, **{TIMER_DELAY_MS: "60000"})
        keep = broker.schemes.timed().keep

        async def keep_slowly(
            draft: Draft, queue: Queue, due_us: int, number: int | None = None
        ) -> StoredMessage:
            await broker.mover.advance(IMMUNITY_US)
            assert await pop(broker) == []
            assert (await rollback(broker, [half])).failed
            return await keep(draft, queue, due_us, number)

        monkeypatch.setattr(broker.schemes.timed(), "keep", keep_slowly)
        assert (await commit(broker, [half])).done == [half.handle]
        await broker.mover.advance(60 * S)
        assert (bodies(await visible(broker)), await pop(broker)) == (["half"], [])


async def test_a_commit_during_the_deletion_of_the_topic_is_refused() -> None:
    async with running_broker() as broker:
        half = await prepare(broker, **{TIMER_DELAY_MS: "60000"})
        with broker.registry.topics.closing(TOPIC), pytest.raises(TopicNotFoundError):
            await commit(broker, [half])
        assert (broker.pending.count, len((await rollback(broker, [half])).done)) == (0, 1)


async def test_a_commit_completes_although_its_caller_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker() as broker:
        half = (await prepare(broker, **{TIMER_DELAY_MS: "60000"})).stored
        message_id = offset_message_id(half.store_host, half.log_offset)
        keep, kept, go = broker.schemes.timed().keep, asyncio.Event(), asyncio.Event()

        async def keep_and_wait(
            draft: Draft, queue: Queue, due_us: int, number: int | None = None
        ) -> StoredMessage:
            parked = await keep(draft, queue, due_us, number)
            kept.set()
            await go.wait()
            return parked

        monkeypatch.setattr(broker.schemes.timed(), "keep", keep_and_wait)
        deciding = asyncio.create_task(broker.half_messages.decide(message_id, commit=True))
        await kept.wait()
        deciding.cancel()
        await asyncio.gather(deciding, return_exceptions=True)
        with pytest.raises(MessageNotFoundError):
            await broker.half_messages.decide(message_id, commit=False)
        go.set()
        async with asyncio.timeout(PATIENCE_S):
            while not broker.half_messages.committed:  # noqa: ASYNC110
                await asyncio.sleep(0)
        await broker.mover.advance(60 * S)
        assert bodies(await visible(broker)) == ["half"]


async def test_a_half_message_after_a_failed_pop_and_commit_can_be_popped_again() -> None:
    async with running_broker() as broker:
        half = (await prepare(broker)).stored
        message_id = offset_message_id(half.store_host, half.log_offset)
        await broker.mover.advance(IMMUNITY_US)
        writer = broker.store.writer
        writer.limits = WriterLimits(waiting=0)
        with pytest.raises(StoreBusyError):
            await pop(broker)
        with pytest.raises(StoreBusyError):
            await broker.half_messages.decide(message_id, commit=True)
        writer.limits = WriterLimits()
        assert len(await pop(broker, wait_s=30)) == 1


@pytest.mark.interpreted
async def test_a_half_message_reset_during_its_commit_is_not_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        half = await prepare(broker)
        write = broker.store.writer.commit

        async def after_a_reset(work: Work) -> object:
            monkeypatch.undo()
            await broker.reset.all()
            return await write(work)

        monkeypatch.setattr(broker.store.writer, "commit", after_a_reset)
        [(handle, error)] = (await commit(broker, [half])).failed
        assert (handle, type(error), await visible(broker)) == (half.handle, ReceiptSpentError, [])


async def test_a_message_whose_topic_is_deleted_during_the_save_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        half = await prepare(broker, **{TIMER_DELAY_MS: "60000"})
        keep = broker.schemes.timed().keep

        async def keep_after_all(
            draft: Draft, queue: Queue, due_us: int, number: int | None = None
        ) -> StoredMessage:
            await broker.reset.delete_topic(TOPIC)
            return await keep(draft, queue, due_us, number)

        monkeypatch.setattr(broker.schemes.timed(), "keep", keep_after_all)
        assert (await commit(broker, [half])).done == []
        await broker.mover.advance(60 * S)
        assert (broker.pending.count, broker.registry.topics.find_topic(TOPIC)) == (0, None)
