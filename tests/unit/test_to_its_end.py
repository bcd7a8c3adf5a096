"""Work for a caller that leaves goes on; its refusal is dropped, any other failure logged."""

import asyncio
import gc
from collections.abc import Callable

import pytest

from mocketmq.errors import ClockError
from mocketmq.to_its_end import to_its_end


async def leave_in_the_middle(error: Exception | None) -> None:
    """Cancel the caller, then let the work end."""
    may_end, has_ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await may_end.wait()
        has_ended.set()
        if error is not None:
            raise error

    caller = asyncio.create_task(to_its_end(work()))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    may_end.set()
    await has_ended.wait()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    gc.collect()  # asyncio complains of what nobody has looked at when it is collected


@pytest.mark.parametrize("make", [lambda: None, lambda: ClockError("backwards")], ids=["done", "refused"])
async def test_nothing_is_logged_of_work_that_ends_or_is_refused(
    make: Callable[[], Exception | None], caplog: pytest.LogCaptureFixture
) -> None:
    await leave_in_the_middle(make())
    assert caplog.messages == []


async def test_defect_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    await leave_in_the_middle(RuntimeError("no such thing"))
    [record] = caplog.records
    assert record.name == "mocketmq.to_its_end"
    assert "RuntimeError: no such thing" in caplog.text


async def test_result_and_refusal_are_those_of_the_work() -> None:
    async def work() -> int:
        return 7

    async def refused() -> int:
        raise ClockError("backwards")

    assert await to_its_end(work()) == 7
    with pytest.raises(ClockError):
        await to_its_end(refused())
