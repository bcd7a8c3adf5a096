"""Background work: failed work is retried, unless the store no longer writes."""

import asyncio

import pytest

from mocketmq.errors import EmulatorError, StoreFailedError, StoreUnavailableError
from mocketmq.store.chore import Chore
from tests.support.patience import PATIENCE_S


class Failing(Chore):
    """A chore that fails at each turn, without pauses in between."""

    name = "the chore"
    interval_s = 0.0

    def __init__(self, error: EmulatorError) -> None:
        super().__init__()
        self.turns = 0
        self._error = error

    async def turn(self) -> None:
        """Count the turn, and fail."""
        self.turns += 1
        raise self._error


async def test_a_failed_round_is_reported_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    chore = Failing(StoreUnavailableError("no space left"))
    chore.start()
    async with asyncio.timeout(PATIENCE_S):
        while chore.turns < 3:  # noqa: ASYNC110 - it sets no event
            await asyncio.sleep(0)
    await chore.close()
    told = "the chore failed and will be tried again: no space left"
    assert [record.message for record in caplog.records] == [told] * chore.turns


async def test_failed_sync_is_reported_once_and_not_retried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    chore = Failing(StoreFailedError("a sync of the disk failed"))
    task = chore.start()
    for _ in range(20):
        await asyncio.sleep(0)
    assert (chore.turns, task.done()) == (1, False)
    await chore.close()
    assert (chore.turns, task.done(), caplog.records) == (1, True, [])
