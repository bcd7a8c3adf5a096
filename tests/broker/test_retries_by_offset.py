"""Messages that offset consumers send back by log offset, even if other group members hold them."""

from pathlib import Path

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.errors import MessageNotFoundError, NoPermissionError
from tests.support.brokers import (
    GROUP,
    TOPIC,
    S,
    acknowledge,
    bodies,
    give_back,
    receive,
    rows,
    running_broker,
    send,
    visible,
)

DLQ = f"%DLQ%{GROUP}"
RETRY = f"%RETRY%{GROUP}"


async def give_back_at(broker: Broker, log_offset: int, level: int = 0, most: int | None = None) -> None:
    await broker.retries.give_back(GROUP, log_offset, level, most)


@pytest.mark.parametrize(
    ("level", "parked"), [(0, 3), (1, 1), (7, 7), (18, 18), (99, 18), (-1, None), (-7, None)]
)
async def test_consumer_may_choose_the_level(level: int, parked: int | None) -> None:
    async with running_broker() as broker:
        await give_back_at(broker, (await send(broker)).stored.log_offset, level)
        assert [one.level for one in await broker.pending.list()] == ([] if parked is None else [parked])
        dead = await visible(broker, DLQ) if parked is None else []
        assert len(dead) == (parked is None)


@pytest.mark.parametrize(
    ("of_group", "of_consumer", "is_dead"), [(16, 0, True), (16, 1, False), (0, None, True), (0, 1, False)]
)
async def test_consumer_may_override_the_retry_limit(
    of_group: int, of_consumer: int | None, is_dead: bool
) -> None:
    async with running_broker() as broker:
        await broker.registry.groups.put(GROUP, of_group, 3)
        await give_back_at(broker, (await send(broker)).stored.log_offset, most=of_consumer)
        assert broker.pending.count == (not is_dead)
        assert bool(broker.registry.topics.find_topic(DLQ)) == is_dead
        if not is_dead:
            assert broker.registry.topics.get(RETRY).write_queues == 3


async def test_pending_message_cannot_be_given_back() -> None:
    async with running_broker() as broker:
        parked = (await send(broker, level=5)).stored
        with pytest.raises(MessageNotFoundError):
            await give_back_at(broker, parked.log_offset)


async def test_unwritable_retry_topic_refuses() -> None:
    async with running_broker() as broker:
        await broker.registry.groups.put(GROUP, 16, 1)
        await broker.registry.topics.put(RETRY, 1, 1, 4)
        sent = await send(broker)
        with pytest.raises(NoPermissionError):
            await give_back_at(broker, sent.stored.log_offset)


# Together with receipts


async def test_message_given_back_is_no_longer_held_by_receipt() -> None:
    async with running_broker() as broker:
        await send(broker, "again", queue=0)
        [taken] = await receive(broker)
        await give_back_at(broker, taken.message.log_offset)
        assert (await acknowledge(broker, [taken])).failed
        assert broker.committed_offsets.of(GROUP, TOPIC, 0) == 1
        await broker.mover.advance(10 * S)
        [again] = await receive(broker)
        assert (again.message.reconsume_times, again.topic, again.message.body) == (1, TOPIC, b"again")
        await broker.mover.advance(3600 * S)
        assert bodies(await receive(broker)) == ["again"]


@pytest.mark.parametrize(("level", "outcome"), [(0, "retried"), (-1, "dead")])
async def test_history_shows_the_outcome_of_the_receive(level: int, outcome: str) -> None:
    async with running_broker() as broker:
        sent = await send(broker)
        await receive(broker)
        await give_back_at(broker, sent.stored.log_offset, level)
        life = await broker.histories.of(sent.stored.unique_key)
        assert [take.outcome for take in life.receipts] == [outcome]


async def test_acknowledged_message_is_retried() -> None:
    async with running_broker() as broker:
        await send(broker, "again", queue=0)
        taken = await receive(broker)
        await acknowledge(broker, taken)
        await give_back_at(broker, taken[0].message.log_offset)
        await broker.mover.advance(10 * S)
        assert bodies(await receive(broker)) == ["again"]


async def test_retries_pass_between_consumers_by_offset_and_by_receipt() -> None:
    async with running_broker() as broker:
        for body in ("pulled", "received"):
            await send(broker, body, queue=0)
        [first, second] = await receive(broker)
        await give_back_at(broker, first.message.log_offset)
        await give_back(broker, [second])
        await broker.mover.advance(10 * S)
        [pulled, _] = (await broker.pull.pull(GROUP, RETRY, 0, 0, 10)).messages
        assert (pulled.body, pulled.reconsume_times) == (b"pulled", 1)
        assert await broker.committed_offsets.report(GROUP, RETRY, 0, 1)
        assert bodies(await receive(broker)) == ["received"]


async def test_delayed_message_is_not_acknowledged_by_a_later_offset(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        for n in range(2):
            await send(broker, str(n), queue=0, level=1)
        await broker.mover.advance(1 * S)
        first, _ = (await broker.pull.pull(GROUP, TOPIC, 0, 0, 10)).messages
        await give_back_at(broker, first.log_offset)
        await broker.committed_offsets.report(GROUP, TOPIC, 0, 2)
    found = rows(tmp_path, "SELECT * FROM deliveries ORDER BY queue_offset")
    assert [row["acked_us"] is not None for row in found] == [False, True]
