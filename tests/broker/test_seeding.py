"""Seeds in the broker: restarts, failures, and clients that send meanwhile."""

import asyncio
from pathlib import Path

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.broker.seeding.planting import Lag, Planted, Seed
from mocketmq.clock import US_PER_S
from mocketmq.errors import SeedError, StoreUnavailableError
from mocketmq.message.message import Message
from mocketmq.message.properties import DELAY, TIMER_DELAY_MS, UNIQ_KEY
from tests.support.brokers import (
    GROUP,
    TOPIC,
    Refusing,
    bodies,
    receive,
    rows,
    running_broker,
    send,
    visible,
)

HOUR_US = 3_600 * US_PER_S


async def plant(broker: Broker) -> Planted:
    """Seed messages of every kind, sent an hour ago. Two of them are pending, one fails, one is dead."""
    then_us = broker.clock.now_us() - HOUR_US

    def message(body: str, **properties: str) -> Message:
        return Message(TOPIC, body.encode(), properties, queue_id=0)

    return await broker.seeder.plant(
        [
            Seed(message("consumed"), then_us, consumed_by=[GROUP]),
            Seed(message("left"), then_us + 1),
            Seed(message("failed"), then_us + 2, failed={GROUP: 16}),
            Seed(message("dead"), then_us + 3, dead={GROUP: 17}),
            Seed(message("level", **{DELAY: "18"}), then_us),
            Seed(message("timer", **{TIMER_DELAY_MS: "7200000"}), then_us),
            Seed(message("over", **{DELAY: "17"}), then_us),
        ]
    )


@pytest.mark.parametrize("scheme", ["directories", "wheel", "slots"])
async def test_a_restart_keeps_what_was_seeded(tmp_path: Path, scheme: str) -> None:
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        planted = await plant(broker)
        assert planted[1:] == (2, 1, 1)
        before = broker.clock.now_us()
    async with running_broker(tmp_path, timed_scheme=scheme) as broker:
        assert broker.clock.now_us() >= before
        assert (broker.schemes.pending, broker.levels.pending) == (3, 2)
        assert bodies(await receive(broker)) == ["left", "over"]
        await broker.mover.advance(HOUR_US)
        assert sorted(bodies(await receive(broker, invisible_us=9 * HOUR_US))) == sorted(
            ["left", "over", "level", "timer"]
        )
        await broker.mover.advance(HOUR_US)
        assert bodies(await receive(broker)) == ["failed"]
    delivered = rows(tmp_path, "SELECT * FROM deliveries ORDER BY delivered_offset")
    assert len(delivered) == 3  # none of them for the past
    assert {row["delivered_us"] - row["due_us"] for row in delivered} == {0}
    assert {row["due_us"] - row["stored_us"] for row in delivered} == {2 * HOUR_US}
    stored = [row["store_us"] for row in rows(tmp_path, "SELECT store_us FROM messages ORDER BY log_offset")]
    assert stored == sorted(stored)


async def test_a_failed_transaction_leaves_nothing(
    anywhere: Path | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(anywhere) as broker:
        await send(broker, queue=1)
        await receive(broker)
        await broker.reset.all()
        queue = broker.registry.topics.queue_of(TOPIC, 0)
        await broker.retries.queue_for(broker.registry.groups.get(GROUP), queue, is_dead=True)
        await broker.retries.queue_for(broker.registry.groups.get(GROUP), queue, is_dead=False)
        begun = queue in broker.consuming_groups.get(GROUP).queues
        async with Refusing(broker, monkeypatch):
            with pytest.raises(StoreUnavailableError):
                await plant(broker)
        assert (broker.schemes.pending, await visible(broker)) == (0, [])
        assert (queue in broker.consuming_groups.get(GROUP).queues) is begun
        assert broker.consuming_groups.get(GROUP).receipts == {}
        assert (await plant(broker)).pending == 2
        assert bodies(await receive(broker)) == ["left", "over"]


async def test_clients_may_send_meanwhile(anywhere: Path | str) -> None:
    async with running_broker(anywhere, clock="real") as broker:
        await send(broker, "before", queue=0)
        seeds = [Seed(Message(TOPIC, b"seed", {}, queue_id=0)) for _ in range(300)]
        sends = [send(broker, "sent", queue=0) for _ in range(300)]
        await asyncio.gather(broker.seeder.plant(seeds), *sends)
        found = bodies(await visible(broker))
        assert sorted(found) == sorted(["before", *["seed"] * 300, *["sent"] * 300])
        first = found.index("seed")
        assert found[first : first + 300] == ["seed"] * 300  # one transaction


async def test_seeds_with_ordering_keys_keep_their_numbers(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        now_us = broker.clock.now_us()
        keys = [f"seed-{number}" for number in range(12)]
        seeds = [
            Seed(
                Message(TOPIC, key.encode(), {UNIQ_KEY: key}),
                now_us - 100 + number,
                ordering_key=f"order-{number % 5}",
                consumed_by=[GROUP] if number < 8 else (),
            )
            for number, key in enumerate(keys)
        ]
        assert (await broker.seeder.plant(seeds)).message_ids == keys
        assert sorted(bodies(await receive(broker, 20))) == sorted(keys[8:])
        message = Message(TOPIC, b"refused", {})
        with pytest.raises(SeedError, match=rf"messages\[1\]\.failed\.{GROUP}"):
            await broker.seeder.plant(
                [Seed(message), Seed(message, ordering_key="order-1", failed={GROUP: 99})]
            )


async def test_progress_counts_over_all_queues(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        now_us = broker.clock.now_us()
        seeds = [Seed(Message(TOPIC, str(n).encode()), now_us - 100 + n) for n in range(50)]
        await broker.seeder.plant(seeds, [Lag(GROUP, TOPIC, 5)])
        assert sorted(bodies(await receive(broker))) == ["45", "46", "47", "48", "49"]


async def test_a_pending_message_has_no_consumers(anywhere: Path | str) -> None:
    async with running_broker(anywhere) as broker:
        seed = Seed(Message(TOPIC, b"x", {DELAY: "3"}), consumed_by=[GROUP])
        with pytest.raises(SeedError, match=r"messages\[0\]\.consumed_by is .* because .* still pending"):
            await broker.seeder.plant([seed])
        twice = Seed(Message(TOPIC, b"x"), consumed_by=[GROUP], dead={GROUP: 1})
        with pytest.raises(SeedError, match="each group only once"):
            await broker.seeder.plant([twice])
