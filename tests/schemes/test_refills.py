"""The engine fills its front from the store while other threads change what is there."""

import asyncio
from collections.abc import Container
from pathlib import Path

import pytest

from mocketmq.settings import TimedSchemeName
from mocketmq_compat.delay.delayed_file import Entry
from tests.support.brokers import S, running_broker
from tests.support.second_directories import HOUR_MS, in_order_of_delivery, scheme_of, send_in


async def test_what_is_marked_during_a_refill_does_not_come_back(
    scheme: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        await send_in(broker, 1_000, "delivered")
        await send_in(broker, HOUR_MS, "waits")
        engine, loop = scheme_of(broker), asyncio.get_running_loop()
        durable, synced, first = asyncio.Event(), broker.store.writer.synced, engine.store.first

        async def synced_later() -> None:
            task = asyncio.current_task()
            if task is not None and task.get_name() == "delay-marks":
                await durable.wait()
            await synced()

        async def mark() -> None:
            durable.set()
            await engine.marked()

        def read_and_mark(limit: int, without: Container[Entry]) -> list[Entry]:
            found = first(limit, ())
            marking = [mark()]
            asyncio.run_coroutine_threadsafe(marking.pop(), loop).result()
            return [entry for entry in found if entry not in without]

        monkeypatch.setattr(broker.store.writer, "synced", synced_later)
        await broker.mover.advance(S)
        assert len(engine.marks.gone) == 1
        with monkeypatch.context() as refilling:
            refilling.setattr(engine.store, "first", read_and_mark)
            await engine._refill()
        assert len(engine._front.entries) == 1
        await broker.mover.advance(2 * HOUR_MS * 1_000)
        assert await in_order_of_delivery(broker) == ["delivered", "waits"]
        assert (engine.pending, engine.repeats) == (0, 0)
