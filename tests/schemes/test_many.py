"""A broker finds many pending messages at its start, and delivers them on time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mocketmq.settings import TimedSchemeName
from mocketmq_compat.delay.delayed_file import DelayedFile
from mocketmq_compat.delay.offline import adding
from mocketmq_compat.delay.schemes import SCHEMES
from tests.support.brokers import S, rows, running_broker
from tests.support.delayed_files import made
from tests.support.second_directories import HOUR_MS, MS


def cases() -> Iterator[object]:
    """Yield a sparse day, and two hours as full as the hours of a day with a million messages."""
    for scheme in SCHEMES:
        yield pytest.param(scheme, 1_440, 24)
        yield pytest.param(scheme, 90_000, 2, marks=pytest.mark.slow)


@pytest.mark.parametrize(("scheme", "count", "hours"), [*cases()])
async def test_many_pending_messages_take_little_memory(
    scheme: TimedSchemeName, count: int, hours: int, tmp_path: Path
) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        start_ms = broker.clock.now_us() // MS
    step_ms = hours * HOUR_MS // count
    with adding(scheme, tmp_path / SCHEMES[scheme].folder, lambda *_: None) as new:
        for number in range(count):
            file = made(f"M{number}", number=number, due_ms=start_ms + (number + 1) * step_ms)
            new.add_message(DelayedFile(file.header, file.body))
        new.sync()
    hour = HOUR_MS // step_ms
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        assert broker.schemes.pending == count
        assert broker.schemes.next_delivery_us() == (start_ms + step_ms) * MS
        [last] = await broker.schemes.find_by_key(f"M{count - 1}")
        async with broker.timer.lock:
            await broker.schemes.cancel([last])
        assert (await broker.mover.advance(3_600 * S)).fired == hour
        assert broker.schemes.pending == count - hour - 1
        assert broker.schemes.early == 0
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        await broker.mover.advance(0)  # refuses the delivered messages that a quick stop left
        assert broker.schemes.pending == count - hour - 1
    [found] = rows(tmp_path, "SELECT count(*) AS n, max(abs(delivered_us - due_us)) AS late FROM deliveries")
    assert found == {"n": hour, "late": 0}
