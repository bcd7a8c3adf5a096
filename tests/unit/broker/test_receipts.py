"""Concurrent actions of two callers on one message."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mocketmq.broker.consuming.receipt import State
from mocketmq.errors import StoreUnavailableError
from mocketmq.message.names import retry_topic
from tests.support.brokers import GROUP, TOPIC, S, acknowledge, receive, rows, running_broker, send
from tests.support.held_up import HeldUp
from tests.support.patience import PATIENCE_S


async def test_a_released_message_is_free_once_at_its_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        await send(broker, queue=0)
        place = await broker.pops.admit(GROUP, TOPIC, 0)
        assert (await broker.pops.pop(place, 1, 60 * S, ordered=True, attempt="one")).messages
        held_up = HeldUp(broker, monkeypatch)
        again = asyncio.create_task(broker.pops.pop(place, 1, 60 * S, ordered=True, attempt="one"))
        await held_up.begun()
        async with broker.expired_receipts.firing(broker.clock.now_us()) as due_now:
            assert [*due_now()] == []
        other = asyncio.create_task(broker.pops.pop(place, 1, 60 * S, ordered=True))
        async with asyncio.timeout(PATIENCE_S):
            while not (other.done() or broker.store.writer.waiting):  # noqa: ASYNC110
                await asyncio.sleep(0)
        held_up.go.set()
        assert [len((await popping).messages) for popping in (again, other)] == [1, 0]


async def test_reassigned_message_is_not_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker(tmp_path) as broker:
        await send(broker)
        late = await receive(broker, invisible_us=S)
        await broker.mover.advance(S)
        held_up = HeldUp(broker, monkeypatch)
        steps: list[asyncio.Task[Any]] = [asyncio.create_task(send(broker, topic="another"))]
        await held_up.begun()
        steps.append(asyncio.create_task(receive(broker)))
        await held_up.queued(1)
        steps.append(asyncio.create_task(broker.receiver.release(GROUP, late)))
        await held_up.queued(2)
        held_up.go.set()
        await asyncio.gather(*steps)
    [row] = rows(tmp_path, "SELECT times, visible_us - last_taken_us AS span_us FROM receipts")
    assert row == {"times": 2, "span_us": 30 * S}


async def test_reassigned_message_stays_open_when_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker:
        sent = (await send(broker)).stored
        await receive(broker, invisible_us=S)
        await broker.mover.advance(S)
        await broker.registry.topics.ensure(retry_topic(GROUP), 1)
        await send(broker, topic="another")
        others = await receive(broker, topic="another")
        held_up = HeldUp(broker, monkeypatch)
        steps: list[asyncio.Task[Any]] = [asyncio.create_task(send(broker, topic="another"))]
        await held_up.begun()
        for count, step in enumerate(
            (
                acknowledge(broker, others),  # settles first, so it is written first
                receive(broker),
                broker.retries.give_back(GROUP, sent.log_offset, 0),
            ),
            1,
        ):
            steps.append(asyncio.create_task(step))
            await held_up.queued(count)
        held_up.go.set()
        await asyncio.gather(*steps)
        assert sent.log_offset in broker.consuming_groups.get(GROUP).receipts
    [row] = rows(tmp_path, f"SELECT outcome FROM receipts WHERE log_offset = {sent.log_offset}")
    assert row == {"outcome": None}


async def test_two_extensions_in_a_failed_transaction_have_no_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker() as broker:
        sent = (await send(broker)).stored
        [taken] = await receive(broker, invisible_us=30 * S)
        settler, database = broker.settler, broker.store.database
        transact = database.transact

        async def refuse(*_: Any) -> None:
            monkeypatch.setattr(database, "transact", transact)
            raise StoreUnavailableError("no")

        monkeypatch.setattr(database, "transact", refuse)
        failed = await asyncio.gather(
            *(settler.extend(GROUP, [taken.handle], seconds * S) for seconds in (60, 90)),
            acknowledge(broker, [taken]),
            return_exceptions=True,
        )
        assert [type(error) for error in failed] == [StoreUnavailableError] * 3
        receipt = broker.consuming_groups.get(GROUP).receipts[sent.log_offset]
        assert (receipt.state, receipt.visible_us) == (State.HELD, taken.visible_us)
        await broker.mover.advance(30 * S)
        assert len(await receive(broker)) == 1
