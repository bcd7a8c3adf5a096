"""Clients that are connected by RocketMQ's own protocol."""

import msgspec

from emulator.broker.broker import Broker
from emulator.broker.clients import BROADCASTING, Consuming, Member, version_name
from emulator.http_api.fields import NoInput
from emulator.http_api.route import Call, Family, Route


class SubscriptionOut(msgspec.Struct, frozen=True):
    """What a client wants of a topic; `expression_type` says in which language of filters."""

    topic: str
    expression: str
    expression_type: str


class ConsumingOut(msgspec.Struct, frozen=True):
    """How a client consumes for a group, in RocketMQ's words.

    `lag` is that of the whole group; null for a broadcast, whose clients keep their offsets to themselves.
    """

    group: str
    consume_type: str
    message_model: str
    consume_from_where: str
    lag: int | None
    subscriptions: list[SubscriptionOut]


class ClientOut(msgspec.Struct, frozen=True):
    """A client. `version` is the name that RocketMQ has for it, or else the number that the client sent."""

    client_id: str
    address: str
    language: str
    version: str
    producer_groups: list[str]
    consumer_groups: list[ConsumingOut]


class ClientsOut(msgspec.Struct, frozen=True):
    """All clients, by id."""

    clients: list[ClientOut]


async def clients(call: Call, _: NoInput) -> ClientsOut:
    """As they described themselves in their last heartbeat. Consumers by receipt are not among them."""
    return ClientsOut([_client_out(call.broker, member) for member in call.broker.clients])


def _client_out(broker: Broker, member: Member) -> ClientOut:
    return ClientOut(
        member.client_id,
        member.channel.remote,
        member.language,
        version_name(member.version),
        sorted(member.producers),
        [_consuming_out(broker, one) for _, one in sorted(member.consumers.items())],
    )


def _consuming_out(broker: Broker, one: Consuming) -> ConsumingOut:
    group = broker.groups.find(one.group)
    lag = sum(place.lag for place in group.queues.values()) if group else 0
    return ConsumingOut(
        one.group,
        one.kind,
        one.model,
        one.starts,
        None if one.model == BROADCASTING else lag,
        [SubscriptionOut(each.topic, each.expression, each.kind) for each in one.subscriptions],
    )


CLIENTS = Family(
    "clients",
    "RocketMQ clients that are connected",
    [Route("GET", "/v1/clients", clients, "All clients", ClientsOut)],
)
