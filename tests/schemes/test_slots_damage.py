"""If an index of the scheme ``slots`` is damaged at run time, all messages still arrive once and on time."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mocketmq.broker.broker import Broker
from tests.schemes.test_slots import SLOTS, slots_of
from tests.support.brokers import S, rows, running_broker
from tests.support.second_directories import HOUR_MS, MS, in_order_of_delivery, listed, send_in

COUNT = 40
HEADER_BYTES = 64
TABLE_BYTES = 4 * 36_000


def change(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def empty_table(path: Path) -> None:
    change(path, HEADER_BYTES, bytes(TABLE_BYTES))


def last_items(path: Path) -> None:
    change(path, path.stat().st_size - 20 * 48, os.urandom(20 * 48))


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 10 * 48)


def removed(path: Path) -> None:
    path.unlink()


def older_copy(path: Path) -> None:
    """Restore the index as it was before any delivery, with the same length."""
    shutil.copy(path.parents[2] / "before", path)


DAMAGES: dict[str, Callable[[Path], None]] = {
    each.__name__: each for each in (empty_table, last_items, truncated, removed, older_copy)
}


async def with_most_beyond_memory(broker: Broker, data: Path) -> Path:
    """Send messages of several slots, and deliver the first ten. Returns the path of their index.

    Only the index knows most of the pending messages.
    """
    slots_of(broker).entries.read_ahead.size = 8
    now_ms = broker.clock.now_us() // MS
    await broker.mover.advance((HOUR_MS - now_ms % HOUR_MS) * MS)  # an hour has an index of its own
    for number in range(COUNT):
        await send_in(broker, 1_000 + 10 * number, str(number))
    [path] = (data / "slots" / "index").iterdir()
    shutil.copy(path, data / "before")
    await broker.mover.advance(S + 90_000)
    await slots_of(broker).marked()
    return path


async def assert_all_come_once(broker: Broker) -> None:
    await broker.mover.advance(60 * S)
    await slots_of(broker).marked()
    assert await in_order_of_delivery(broker) == [str(number) for number in range(COUNT)]
    assert broker.schemes.pending == 0


pytestmark = pytest.mark.usefixtures("wall")


@pytest.mark.parametrize("damage", DAMAGES)
async def test_s11_a_damaged_index_is_reported_and_loses_nothing(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(tmp_path, **SLOTS) as broker:
        path = await with_most_beyond_memory(broker, tmp_path)
        DAMAGES[damage](path)
        await assert_all_come_once(broker)
        if damage != "older_copy":  # the broker never reads the old marks of past slots
            assert broker.schemes.file_figures().put_aside == {"index": 1}
            assert f"index/{path.name} is damaged" in caplog.text
            assert "rebuilding the indexes of its day" in caplog.text
    assert rows(tmp_path, "SELECT * FROM deliveries WHERE delivered_us <> due_us") == []
    async with running_broker(tmp_path, **SLOTS) as broker:
        assert broker.schemes.pending == 0


@pytest.mark.parametrize("damage", DAMAGES)
async def test_pending_messages_are_listed_and_survive_a_stop(damage: str, tmp_path: Path) -> None:
    async with running_broker(tmp_path, **SLOTS) as broker:
        path = await with_most_beyond_memory(broker, tmp_path)
        DAMAGES[damage](path)
        assert await listed(broker) == [str(number) for number in range(10, COUNT)]
        assert broker.schemes.pending == COUNT - 10
    async with running_broker(tmp_path, **SLOTS) as broker:
        await assert_all_come_once(broker)


async def test_sends_and_cancellations_continue(tmp_path: Path) -> None:
    async with running_broker(tmp_path, **SLOTS) as broker:
        path = await with_most_beyond_memory(broker, tmp_path)
        removed(path)
        await send_in(broker, 5_000, str(COUNT))
        *_, last, _ = await broker.schemes.page(-1, 2 * COUNT)
        truncated(path)
        async with broker.timer.intervention():
            await broker.schemes.cancel([last])
        assert broker.schemes.pending == COUNT - 10
        await broker.mover.advance(60 * S)
        expected = [str(number) for number in range(COUNT + 1) if number != COUNT - 1]
        assert await in_order_of_delivery(broker) == expected
        assert (broker.schemes.pending, broker.schemes.file_figures().quarantined) == (0, 0)
