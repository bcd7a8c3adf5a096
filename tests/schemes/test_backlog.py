"""What watchers see of the pending messages of each scheme: ``report --follow``, and the console's lane."""

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from mocketmq.settings import TimedSchemeName
from mocketmq.store.database import MEMORY
from mocketmq_compat.delay.delayed_file import DelayedFile
from mocketmq_compat.delay.offline import adding
from mocketmq_compat.delay.schemes import SCHEMES
from mocketmq_report.live.status import GRACE_US, NO_LEVEL, Backlog, broker_status
from tests.support.brokers import S, running_broker
from tests.support.delayed_files import made
from tests.support.patience import HANGING_S
from tests.support.second_directories import HOUR_MS, MS, no_removal_left, send_in
from tests.support.stores import START_US, MadeStore


def timed_backlog(data: Path) -> Backlog:
    return broker_status(data).waiting[NO_LEVEL]


@pytest.fixture(scope="module")
def reports() -> Iterator[Executor]:
    """The process of a report. It reads the store with a second SQLite library.

    In the broker's process, this library would release the locks of the broker's.
    Source: https://sqlite.org/howtocorrupt.html, "Multiple copies of SQLite linked into the same application"
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        yield process


@pytest.mark.parametrize("is_in_memory", [False, True])
async def test_pending_messages_are_counted_by_second(
    scheme: TimedSchemeName, is_in_memory: bool, tmp_path: Path
) -> None:
    async with running_broker(MEMORY if is_in_memory else tmp_path, timed_scheme=scheme) as broker:
        second = -(-broker.clock.now_us() // MS) // 1_000
        for in_s in (2, 5, 5):
            await send_in(broker, in_s * 1_000)
        assert broker.schemes.due_seconds() == {second + 2: 1, second + 5: 2}
        await broker.mover.advance(3 * S)
        await no_removal_left(broker)
        assert broker.schemes.due_seconds() == {second + 5: 2}


async def test_deliveries_and_cancellations_leave_the_backlog(
    scheme: TimedSchemeName, tmp_path: Path, reports: Executor
) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:

        def backlog() -> Backlog:
            return reports.submit(timed_backlog, tmp_path).result(HANGING_S)

        assert backlog() == Backlog(0, 0)
        for key, in_ms in (("A", 1_000), ("B", 2_000), ("C", HOUR_MS), ("D", 49 * HOUR_MS)):
            await send_in(broker, in_ms, UNIQ_KEY=key)
        assert backlog() == Backlog(4, 0)
        await broker.mover.advance(10 * S)
        await no_removal_left(broker)
        assert backlog() == Backlog(2, 0)
        [found] = await broker.schemes.find_by_key("C")
        async with broker.timer.lock:
            await broker.schemes.cancel([found])
        await no_removal_left(broker)
        assert backlog() == Backlog(1, 0)
    assert backlog() == Backlog(1, 0)


def test_a_message_is_overdue_a_second_after_its_due_time(scheme: TimedSchemeName, tmp_path: Path) -> None:
    store = MadeStore(tmp_path)
    limit_ms = (START_US - GRACE_US) // MS
    with adding(scheme, tmp_path / SCHEMES[scheme].folder, lambda *_: None) as new:
        for number, due_ms in enumerate((limit_ms - HOUR_MS, limit_ms, limit_ms + 1)):
            file = made(f"M{number}", number=number, due_ms=due_ms)
            new.add_message(DelayedFile(file.header, file.body))
        new.sync()
    assert broker_status(store.data).waiting == {NO_LEVEL: Backlog(3, 2)}
