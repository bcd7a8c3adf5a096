"""Converts a sent message to JSON, with its outcome and its state in each consumer group."""

from typing import Annotated

import msgspec
from msgspec import Meta

from mocketmq.broker.broker import Broker
from mocketmq.broker.verification.expectations import SeenMessage
from mocketmq.clock import US_PER_MS
from mocketmq.http_api.message_out import fields_of, to_ms

Most = Annotated[int, Meta(ge=0, le=1_000, description="Largest number of messages; the newest are returned")]


class AtGroup(msgspec.Struct, frozen=True):
    """A message's state in a consumer group and its end, and how often a consumer received the message."""

    group: str
    state: str
    times: int
    until_ms: int | None


class SeenOut(msgspec.Struct, frozen=True):
    """A message that was sent. `due_ms` is null if it was not delayed.

    `state` is `pending`, `delivered`, `cancelled` or `lost` (by a crash). `delivered_ms` is when consumers
    could first see the message. `text` is a summary in one line.
    """

    message_id: str
    topic: str
    queue_id: int
    lite_topic: str | None
    tag: str | None
    keys: list[str]
    properties: dict[str, str]
    body: str | None
    body_base64: bytes | None
    sent_ms: int
    delay_level: int
    due_ms: int | None
    state: str
    delivered_ms: int | None
    groups: list[AtGroup]
    text: str


def seen_out(broker: Broker, seen: SeenMessage) -> SeenOut:
    """Convert a sent message to JSON."""
    stored, message = fields_of(broker, seen.content), seen.sent
    state = "delivered" if message.positions else "cancelled" if message.is_cancelled else "pending"
    state = "lost" if message.is_lost else state
    return SeenOut(
        **{name: stored[name] for name in ("message_id", "tag", "keys", "properties", "body", "body_base64")},
        topic=message.queue.topic,
        queue_id=message.queue.queue_id,
        lite_topic=message.queue.lite_topic,
        sent_ms=message.sent_us // US_PER_MS,
        delay_level=message.level or 0,
        due_ms=to_ms(message.due_us),
        state=state,
        delivered_ms=message.positions[0].at_us // US_PER_MS if message.positions else None,
        groups=[
            AtGroup(group, status.state.value, status.times, to_ms(status.until_us))
            for group, status in seen.group_statuses.items()
        ],
        text=broker.expectations.describe(seen),
    )
