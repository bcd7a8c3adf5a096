"""The engine fills its read-ahead from the store while other threads change the store."""

import asyncio
from collections.abc import Container
from pathlib import Path

import pytest

from mocketmq.settings import TimedSchemeName
from mocketmq_compat.delay.delayed_file import Entry
from tests.support.brokers import S, running_broker
from tests.support.held_up import HeldMarks
from tests.support.second_directories import HOUR_MS, in_order_of_delivery, scheme_of, send_in


@pytest.mark.interpreted
async def test_entries_marked_during_a_refill_do_not_reappear(
    scheme: TimedSchemeName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        await send_in(broker, 1_000, "delivered")
        await send_in(broker, HOUR_MS, "waits")
        engine, loop = scheme_of(broker), asyncio.get_running_loop()
        first, marks = engine.store.first_records, HeldMarks(broker, monkeypatch)

        async def mark() -> None:
            marks.durable.set()
            await engine.marked()

        def read_and_mark(limit: int, without: Container[Entry]) -> list[Entry]:
            found = first(limit, ())
            marking = [mark()]
            asyncio.run_coroutine_threadsafe(marking.pop(), loop).result()
            return [entry for entry in found if entry not in without]

        await broker.mover.advance(S)
        assert len(engine.marks.gone) == 1
        with monkeypatch.context() as refilling:
            refilling.setattr(engine.store, "first_records", read_and_mark)
            await engine.entries.refill()
        assert len(engine.entries.read_ahead.entries) == 1
        await broker.mover.advance(2 * HOUR_MS * 1_000)
        assert await in_order_of_delivery(broker) == ["delivered", "waits"]
        assert (engine.pending, engine.repeats) == (0, 0)
