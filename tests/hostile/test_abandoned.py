"""Receives whose clients are gone before they are served."""

import asyncio
from typing import Any

import pytest

from mocketmq.broker.consuming.selection import Selection
from tests.doors.remoting.gates import until
from tests.support.brokers import bodies, receive, running_broker, send
from tests.support.patience import PATIENCE_S

WAITING = 20


async def test_a_receive_that_is_abandoned_in_the_queue_reads_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    select, gate, begun = Selection.select, asyncio.Event(), []

    async def held(selection: Selection) -> None:
        begun.append(selection)
        await gate.wait()
        await select(selection)

    monkeypatch.setattr(Selection, "select", held)
    async with running_broker() as broker:
        await send(broker, "kept")
        receives = [asyncio.create_task(receive(broker)) for _ in range(WAITING)]
        await until(lambda: bool(begun))
        for each in receives:
            each.cancel()
        await asyncio.gather(*receives, return_exceptions=True)
        assert len(begun) == 1
        gate.set()
        again: Any = []
        while not again:  # the one that had begun gives back what it took
            again = await receive(broker, wait_s=PATIENCE_S)
        assert (bodies(again), again[0].times) == (["kept"], 1)
