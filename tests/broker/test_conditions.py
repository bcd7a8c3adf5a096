"""Consuming by a condition on properties: what the condition selects, wakes and skips."""

import asyncio
from typing import Any

import pytest

from mocketmq.message.message import Message
from mocketmq.store.database import Database
from tests.support.brokers import TOPIC, bodies, give_back, receive, running_broker, send


async def test_condition_selects_over_all_queues_and_skips_the_rest() -> None:
    async with running_broker() as broker:
        prices = range(1, 501)
        await broker.sender.send_batch(
            [Message(TOPIC, str(price).encode(), {"price": str(price)}, price % 2) for price in prices]
        )
        sql = "price IN ('7', '8') OR price >= 499"
        taken = await receive(broker, sql=sql)
        assert sorted(bodies(taken)) == ["499", "500", "7", "8"]
        assert await receive(broker, sql=sql) == []
        assert len(await receive(broker, 1_000, group="shipping")) == 500


async def test_a_retry_meets_the_condition_that_its_message_met() -> None:
    async with running_broker() as broker:
        await send(broker, price="7")
        await give_back(broker, await receive(broker, sql="price < 8"), 1)
        await broker.mover.move_to_next()
        [again] = await receive(broker, sql="price < 8")
        assert again.message.reconsume_times == 1


async def test_match_among_many_is_found_in_few_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker() as broker:
        await broker.sender.send_batch([Message(TOPIC, b"x", {"n": str(n)}, 0) for n in range(1_000)])
        reads, rows = 0, Database.rows

        async def counted(database: Database, *given: Any, **few: Any) -> list[Any]:
            nonlocal reads
            reads += 1
            return await rows(database, *given, **few)

        monkeypatch.setattr(Database, "rows", counted)
        [taken] = await receive(broker, 1, sql="n = 990")
        assert "990" in taken.message.properties
        assert reads < 20


async def test_receive_waits_for_a_match() -> None:
    async with running_broker() as broker:
        receiving = asyncio.create_task(receive(broker, wait_s=30, sql="price > 10"))
        for price in ("9", "x", "11"):
            await send(broker, price, price=price)
        assert bodies(await receiving) == ["11"]
