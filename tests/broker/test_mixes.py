"""Messages due in several schemes and sources are processed together, in order of due time."""

from pathlib import Path

from mocketmq.schedule.timer import BATCH
from tests.support.brokers import S, bodies, receive, rows, running_broker, send, visible
from tests.support.second_directories import MS, message_files, no_removal_left, send_in

EACH = BATCH + 1


async def test_alternating_levels_and_due_times_take_few_transactions(tmp_path: Path) -> None:
    async with running_broker(tmp_path, levels="10s", delay_sync="never", topic_queues=1) as broker:
        start_us = broker.clock.now_us()
        for number in range(0, 2 * EACH, 2):
            await send_in(broker, 10_000 + number + 1, str(number + 1))
        for number in range(0, 2 * EACH, 2):
            await send(broker, str(number), level=1)
            await broker.mover.advance(2 * MS)
    async with running_broker(tmp_path, levels="10s") as broker:
        before = broker.store.writer.commits
        assert (await broker.mover.advance(60 * S)).fired == 2 * EACH
        assert broker.store.writer.commits - before < 10
        assert bodies(await visible(broker)) == [str(number) for number in range(2 * EACH)]
        await no_removal_left(broker)
    delivered = rows(tmp_path, "SELECT * FROM deliveries ORDER BY delivered_offset")
    assert [(row["due_us"] - start_us) // MS for row in delivered] == [10_000 + n for n in range(2 * EACH)]
    assert all(row["picked_us"] == row["delivered_us"] == row["due_us"] for row in delivered)
    assert message_files(tmp_path) == []


async def test_receipts_expire_among_deliveries() -> None:
    async with running_broker(levels="10s") as broker:
        for number in range(EACH):
            await send(broker, f"taken {number}")
        for number in range(EACH):
            assert len(await receive(broker, 1, invisible_us=10 * S + 2 * number * MS)) == 1
            await send_in(broker, 10_001 + 2 * number)
        before = broker.store.writer.commits
        assert (await broker.mover.advance(10 * S + EACH * MS)).fired == EACH // 2 + 1
        assert len(await receive(broker, 256)) + len(await receive(broker, 256)) == EACH + 1
        assert (await broker.mover.advance(S)).fired == EACH // 2
        assert broker.store.writer.commits - before < 15
