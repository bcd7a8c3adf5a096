"""Work in the background: what fails is tried again, unless nothing is written any more."""

import asyncio

import pytest

from mocketmq.errors import EmulatorError, StoreFailedError, StoreUnavailableError
from mocketmq.store.chore import Chore
from tests.support.patience import PATIENCE_S


class Failing(Chore):
    """Fails at each turn, without a rest between them."""

    name = "the chore"
    interval_s = 0.0

    def __init__(self, error: EmulatorError) -> None:
        super().__init__()
        self.turns = 0
        self._error = error

    async def turn(self) -> None:
        """Count it."""
        self.turns += 1
        raise self._error


async def test_a_turn_that_fails_is_told_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    chore = Failing(StoreUnavailableError("no space left"))
    chore.start()
    async with asyncio.timeout(PATIENCE_S):
        while chore.turns < 3:  # noqa: ASYNC110 - it sets no event
            await asyncio.sleep(0)
    await chore.close()
    told = "the chore failed and will be tried again: no space left"
    assert [record.message for record in caplog.records] == [told] * chore.turns


async def test_after_a_failed_sync_nothing_is_tried_or_told_again(caplog: pytest.LogCaptureFixture) -> None:
    chore = Failing(StoreFailedError("a sync of the disk failed"))
    task = chore.start()
    for _ in range(20):
        await asyncio.sleep(0)
    assert (chore.turns, task.done()) == (1, False)
    await chore.close()
    assert (chore.turns, task.done(), caplog.records) == (1, True, [])
