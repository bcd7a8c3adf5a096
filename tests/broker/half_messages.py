"""Helpers to prepare, pop and decide half messages in broker tests."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mocketmq.broker.broker import Broker
from mocketmq.broker.consuming.receiver import InFlightMessage
from mocketmq.broker.consuming.settler import Settled
from mocketmq.broker.transactions.popped_halves import PreparedHalf
from mocketmq.message.message import Message
from mocketmq.message.names import half_topic
from tests.support.brokers import (
    TOPIC,
    S,
)

HALF = half_topic(TOPIC)
IMMUNITY_US = 20 * S
Decide = Callable[[Broker, Sequence[PreparedHalf | InFlightMessage]], Awaitable[Settled]]


async def prepare(broker: Broker, body: str = "half", **how: Any) -> PreparedHalf:
    """Prepare one half message for the topic. Keywords that are no field of Message become properties."""
    fields = {name: how.pop(name) for name in ("topic", "queue_id", "born_us") if name in how}
    message = Message(**{"topic": TOPIC, **fields}, body=body.encode(), properties=how)
    return await broker.popped_halves.prepare(message, IMMUNITY_US)


async def pop(
    broker: Broker, limit: int = 100, *, topic: str = TOPIC, wait_s: float = 0.0
) -> list[InFlightMessage]:
    return await broker.popped_halves.pop(topic, max_messages=limit, wait_s=wait_s)


async def commit(broker: Broker, halves: Sequence[PreparedHalf | InFlightMessage]) -> Settled:
    return await broker.popped_halves.commit(TOPIC, [half.handle for half in halves])


async def rollback(broker: Broker, halves: Sequence[PreparedHalf | InFlightMessage]) -> Settled:
    return await broker.popped_halves.rollback(TOPIC, [half.handle for half in halves])
