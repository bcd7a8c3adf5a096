"""Work continues after its caller is cancelled; a refusal is dropped, other failures are logged."""

import asyncio
import gc
from collections.abc import Callable

import pytest

from mocketmq.errors import ClockError
from mocketmq.event_loop import run_to_completion


async def leave_in_the_middle(error: Exception | None) -> None:
    """Cancel the caller, then let the work finish."""
    may_end, has_ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await may_end.wait()
        has_ended.set()
        if error is not None:
            raise error

    caller = asyncio.create_task(run_to_completion(work()))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    may_end.set()
    await has_ended.wait()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gc.collect()  # on collection, asyncio reports exceptions that were never retrieved


@pytest.mark.parametrize("make", [lambda: None, lambda: ClockError("backwards")], ids=["done", "refused"])
async def test_finished_and_refused_work_is_not_logged(
    make: Callable[[], Exception | None], caplog: pytest.LogCaptureFixture
) -> None:
    await leave_in_the_middle(make())
    assert caplog.messages == []


async def test_defect_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    await leave_in_the_middle(RuntimeError("no such thing"))
    [record] = caplog.records
    assert record.name == "mocketmq.event_loop"
    assert "RuntimeError: no such thing" in caplog.text


async def test_result_and_refusal_are_passed_on() -> None:
    async def work() -> int:
        return 7

    async def refused() -> int:
        raise ClockError("backwards")

    assert await run_to_completion(work()) == 7
    with pytest.raises(ClockError):
        await run_to_completion(refused())
