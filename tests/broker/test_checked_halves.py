"""Half messages with a producer group are decided by id, and given up after the last check-back."""

from typing import Any

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.broker.transactions.half_messages import HalfMessage
from mocketmq.errors import MessageNotFoundError
from mocketmq.message.message import Message
from mocketmq.message.names import CHECKED_HALF_GROUP, UNDECIDED_TOPIC
from mocketmq.message.properties import DELAY, TIMER_DELAY_MS, UNIQ_KEY
from tests.support.brokers import TOPIC, S, bodies, running_broker, visible


async def prepare(broker: Broker, body: str = "half", **properties: str) -> HalfMessage:
    return await broker.half_messages.prepare_checked(Message(TOPIC, body.encode(), properties), "makers")


async def test_oldest_half_message_with_an_id_is_decided_first() -> None:
    async with running_broker() as broker:
        for body in ("old", "new"):
            await prepare(broker, body, **{UNIQ_KEY: "twice"})
        assert (await broker.half_messages.decide("twice", commit=True)).stored.body == b"old"
        assert (await broker.half_messages.decide("twice", commit=False)).stored.body == b"new"
        assert bodies(await visible(broker)) == ["old"]


@pytest.mark.parametrize(
    ("delay", "due_in_us"), [({DELAY: "2"}, 5 * S), ({TIMER_DELAY_MS: "9000"}, 7 * S)], ids=["level", "timer"]
)
async def test_level_counts_from_the_commit_and_timer_from_the_send(
    delay: dict[str, Any], due_in_us: int
) -> None:
    async with running_broker() as broker:
        half = await prepare(broker, **delay)
        assert half.due_us == (half.stored.store_us + 9 * S if TIMER_DELAY_MS in delay else None)
        await broker.mover.advance(2 * S)
        assert await broker.pending.list() == []
        await broker.half_messages.decide(half.stored.unique_key, commit=True)
        [pending] = await broker.pending.list()
        assert pending.message.due_us == broker.clock.now_us() + due_in_us
        await broker.mover.move_to_next()
        assert bodies(await visible(broker)) == ["half"]


async def test_undecided_half_message_is_abandoned_after_the_last_check() -> None:
    async with running_broker() as broker:
        half = await prepare(broker)
        key = half.stored.unique_key
        await broker.mover.advance(3_600 * S)
        [abandoned] = await visible(broker, UNDECIDED_TOPIC)
        assert (abandoned.unique_key, abandoned.real_queue_key) == (key, half.queue.key)
        with pytest.raises(MessageNotFoundError):
            await broker.half_messages.decide(key, commit=True)
        [take] = (await broker.histories.of(key)).receipts
        assert (take.group, take.outcome, take.times) == (CHECKED_HALF_GROUP, "abandoned", 15)
        assert (await visible(broker), broker.half_messages.abandoned) == ([], 1)
