"""A sent message in answers: its outcome, and its state in each consumer group."""

from typing import Annotated

import msgspec
from msgspec import Meta

from mocketmq.broker.broker import Broker
from mocketmq.broker.verification.expectations import SeenMessage
from mocketmq.clock import US_PER_MS
from mocketmq.http_api.message_out import fields_of, to_ms

Most = Annotated[int, Meta(ge=0, le=1_000, description="Most messages to answer: the newest")]


class AtGroup(msgspec.Struct, frozen=True):
    """How a message stands at a group, how often it was taken by receipt, and until when it stands so."""

    group: str
    state: str
    times: int
    until_ms: int | None


class SeenOut(msgspec.Struct, frozen=True):
    """A message that was sent. `due_ms` is null if it was not delayed.

    `state` is `pending`, `delivered` or `cancelled`; `delivered_ms` is when consumers could first see it.
    `text` says it in a line.
    """

    message_id: str
    topic: str
    queue_id: int
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
    """The message as it is answered."""
    stored, message = fields_of(broker, seen.content), seen.sent
    state = "delivered" if message.places else "cancelled" if message.is_cancelled else "pending"
    return SeenOut(
        **{name: stored[name] for name in ("message_id", "tag", "keys", "properties", "body", "body_base64")},
        topic=message.queue.topic,
        queue_id=message.queue.queue_id,
        sent_ms=message.sent_us // US_PER_MS,
        delay_level=message.level or 0,
        due_ms=to_ms(message.due_us),
        state=state,
        delivered_ms=message.places[0].at_us // US_PER_MS if message.places else None,
        groups=[
            AtGroup(group, standing.at.value, standing.times, to_ms(standing.until_us))
            for group, standing in seen.standings.items()
        ],
        text=broker.verification.expectations.describe(seen),
    )
