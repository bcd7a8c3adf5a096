"""Routes for connected RocketMQ clients: list them, get running info, consume directly, reconnect."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from mocketmq.access.needs import Action
from mocketmq.broker.broker import Broker
from mocketmq.broker.registry.clients import BROADCASTING, ClientAnswer, ConsumerData, Member
from mocketmq.errors import ClientFailedError, ClientOfflineError, ClientTimeoutError, MessageNotFoundError
from mocketmq.http_api.access import on_group
from mocketmq.http_api.fields import ANY_FIELDS, GroupName, Input, MessageId, NoInput
from mocketmq.http_api.route import ApiCall, Route, RouteGroup


class SubscriptionOut(msgspec.Struct, frozen=True):
    """A topic that a client subscribes to, and its filter. `expression_type` is `TAG` or `SQL92`."""

    topic: str
    expression: str
    expression_type: str


class ConsumingOut(msgspec.Struct, frozen=True):
    """How a client consumes for a group, in RocketMQ's terms.

    `lag` is the lag of the whole group. For broadcasting, `lag` is null, because the clients then keep their
    own offsets.
    """

    group: str
    consume_type: str
    message_model: str
    consume_from_where: str
    lag: int | None
    subscriptions: list[SubscriptionOut]


class ClientOut(msgspec.Struct, frozen=True):
    """A client. `door` is `remoting` or `grpc`.

    `version` is the name of the RocketMQ version, or its number if it has no name. gRPC clients report their
    own text. `properties` are the `client_properties` that an application sends in its settings over gRPC.
    """

    client_id: str
    address: str
    door: str
    language: str
    version: str
    producer_groups: list[str]
    consumer_groups: list[ConsumingOut]
    properties: dict[str, str]


class ClientsOut(msgspec.Struct, frozen=True):
    """All clients, sorted by id."""

    clients: list[ClientOut]


class ClientPath(Input, frozen=True):
    """A client."""

    client_id: Annotated[str, Meta(min_length=1, max_length=1_024, description="Id of the client")]


class ConsumerPath(ClientPath, frozen=True):
    """A client that consumes for a group."""

    group: GroupName


class RunningInfoOut(msgspec.Struct, frozen=True):
    """A consumer's report on itself, such as its subscriptions, queues and rates.

    The field names are those of its library. Keys that are objects, such as queues, are given as JSON text.
    """

    running_info: Annotated[dict[str, Any], ANY_FIELDS]


class ConsumeIn(Input, frozen=True):
    """The message to consume, and the consumer group."""

    group: GroupName
    message_id: MessageId


class ReconnectOut(msgspec.Struct, frozen=True):
    """The number of the client's connections on which the broker sent the command."""

    connections: int


class ConsumedOut(msgspec.Struct, frozen=True):
    """The result, in RocketMQ's terms: `CR_SUCCESS`, `CR_LATER`, `CR_THROW_EXCEPTION` and others."""

    result: str
    remark: str
    spent_ms: int | None


CLIENTS = RouteGroup("clients", "Connected RocketMQ clients")


@Route(CLIENTS, "GET /v1/clients", "List the connected clients")
async def clients(call: ApiCall, _: NoInput) -> ClientsOut:
    """Returns the clients as of their last heartbeats. Consumers over HTTP are not listed."""
    return ClientsOut([_client_out(call.broker, member) for member in call.broker.registry.clients])


@Route(
    CLIENTS,
    "GET /v1/clients/{client_id}/running-info",
    "Ask a consumer for its running info",
    errors=[ClientOfflineError, ClientFailedError, ClientTimeoutError],
    needs=on_group(Action.GET),
)
async def running_info(call: ApiCall, path: ConsumerPath) -> RunningInfoOut:
    """Asks a remoting client, and waits up to 10 s. For a gRPC client, returns what the broker knows."""
    answer = await call.broker.consumers.running_info(path.group, path.client_id, with_stacks=False)
    return RunningInfoOut(dict(_content(answer)))


_RESULTS = ["CR_SUCCESS", "CR_LATER", "CR_ROLLBACK", "CR_COMMIT", "CR_THROW_EXCEPTION", "CR_RETURN_NULL"]
"""Results of consumption. Go clients send the index of a result instead of its name."""


@Route(
    CLIENTS,
    "POST /v1/clients/{client_id}/consume",
    "Have a consumer consume a message now",
    errors=[ClientOfflineError, MessageNotFoundError, ClientFailedError, ClientTimeoutError],
)
async def consume(call: ApiCall, path: ClientPath, wanted: ConsumeIn) -> ConsumedOut:
    """Accepts any stored message, even a consumed one. The group's offsets do not change."""
    answer = await call.broker.consumers.consume(wanted.group, path.client_id, wanted.message_id)
    content = _content(answer)
    result, remark, spent_ms = (content.get(name) for name in ("consumeResult", "remark", "spentTimeMills"))
    if isinstance(result, int) and 0 <= result < len(_RESULTS):
        result = _RESULTS[result]
    if not isinstance(result, str):
        raise _unreadable(answer)
    return ConsumedOut(result, str(remark or ""), spent_ms if isinstance(spent_ms, int) else None)


@Route(
    CLIENTS,
    "POST /v1/clients/{client_id}/reconnect",
    "Tell a gRPC client to reconnect",
    errors=[ClientOfflineError],
)
async def reconnect(call: ApiCall, path: ClientPath) -> ReconnectOut:
    """Sends ReconnectEndpointsCommand to a gRPC client. Some SDKs then open a new Telemetry stream."""
    return ReconnectOut(call.broker.registry.clients.reconnect(path.client_id))


def _content(answer: ClientAnswer) -> Mapping[str, Any]:
    if not isinstance(answer.content, Mapping):
        raise _unreadable(answer)
    return answer.content


def _unreadable(answer: ClientAnswer) -> ClientFailedError:
    return ClientFailedError(f"the client's answer of {len(answer.text)} bytes cannot be read")


def _client_out(broker: Broker, member: Member) -> ClientOut:
    return ClientOut(
        member.client_id,
        member.channel.remote,
        member.channel.door,
        member.language,
        member.version_text,
        sorted(member.producers),
        [_consuming_out(broker, one) for _, one in sorted(member.consumers.items())],
        dict(member.properties),
    )


def _consuming_out(broker: Broker, one: ConsumerData) -> ConsumingOut:
    group = broker.consuming_groups.find_group(one.group)
    lag = sum(group_queue.lag for group_queue in group.queues.values()) if group else 0
    return ConsumingOut(
        one.group,
        one.kind,
        one.model,
        one.starts,
        None if one.model == BROADCASTING else lag,
        [SubscriptionOut(each.topic, each.expression, each.kind) for each in one.subscriptions],
    )
