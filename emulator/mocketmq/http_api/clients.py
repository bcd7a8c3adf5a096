"""Clients that are connected by RocketMQ's own protocol."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mocketmq.broker.broker import Broker
from mocketmq.broker.registry.clients import BROADCASTING, Consuming, Member, Told
from mocketmq.errors import ClientFailedError, ClientOfflineError, ClientTimeoutError, MessageNotFoundError
from mocketmq.http_api.fields import GroupName, Input, MessageId, NoInput
from mocketmq.http_api.route import Call, Family, Route
from mocketmq.rocketmq_versions import version_name


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


class ClientPath(Input, frozen=True):
    """A client."""

    client_id: Annotated[str, Meta(min_length=1, max_length=1_024)]


class ConsumerPath(ClientPath, frozen=True):
    """A client that consumes for a group."""

    group: GroupName


class RunningInfoOut(msgspec.Struct, frozen=True):
    """What a consumer told of itself, in the words of its library: subscriptions, queues, rates.

    Objects that stand there as keys, such as queues, are text here.
    """

    running_info: dict[str, Any]


class ConsumeIn(Input, frozen=True):
    """What a client shall consume, and for which group; the message by unique key or offset message id."""

    group: GroupName
    message_id: MessageId


class ConsumedOut(msgspec.Struct, frozen=True):
    """What came of it. `result` is RocketMQ's, such as `CR_SUCCESS`, `CR_LATER` or `CR_THROW_EXCEPTION`."""

    result: str
    remark: str
    spent_ms: int | None


async def clients(call: Call, _: NoInput) -> ClientsOut:
    """As they described themselves in their last heartbeat. Consumers by receipt are not among them."""
    return ClientsOut([_client_out(call.broker, member) for member in call.broker.clients])


async def running_info(call: Call, path: ConsumerPath) -> RunningInfoOut:
    """Asks the client, which has 10 s to answer."""
    told = await call.broker.consumers.running_info(path.group, path.client_id, with_stacks=False)
    return RunningInfoOut(dict(_content(told)))


_RESULTS = ["CR_SUCCESS", "CR_LATER", "CR_ROLLBACK", "CR_COMMIT", "CR_THROW_EXCEPTION", "CR_RETURN_NULL"]
"""By the numbers that Go clients tell."""


async def consume(call: Call, path: ClientPath, wanted: ConsumeIn) -> ConsumedOut:
    """Whatever became of the message before; the group's offsets stay as they are."""
    told = await call.broker.consumers.consume(wanted.group, path.client_id, wanted.message_id)
    content = _content(told)
    result, remark, spent_ms = (content.get(name) for name in ("consumeResult", "remark", "spentTimeMills"))
    if isinstance(result, int) and 0 <= result < len(_RESULTS):
        result = _RESULTS[result]
    if not isinstance(result, str):
        raise _unreadable(told)
    return ConsumedOut(result, str(remark or ""), spent_ms if isinstance(spent_ms, int) else None)


def _content(told: Told) -> Mapping[str, Any]:
    if not isinstance(told.content, Mapping):
        raise _unreadable(told)
    return told.content


def _unreadable(told: Told) -> ClientFailedError:
    return ClientFailedError(f"the client has answered what cannot be read, {len(told.text)} bytes")


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
    [
        Route("GET", "/v1/clients", clients, "All clients", ClientsOut),
        Route(
            "GET",
            "/v1/clients/{client_id}/running-info",
            running_info,
            "Ask a consumer what it does",
            RunningInfoOut,
            ConsumerPath,
            errors=[ClientOfflineError, ClientFailedError, ClientTimeoutError],
        ),
        Route(
            "POST",
            "/v1/clients/{client_id}/consume",
            consume,
            "Let a consumer consume a message now",
            ConsumedOut,
            ClientPath,
            ConsumeIn,
            errors=[ClientOfflineError, MessageNotFoundError, ClientFailedError, ClientTimeoutError],
        ),
    ],
)
