"""Heartbeats and group membership (docs/protocol/remoting.md §8.1)."""

from collections.abc import Iterator, Mapping
from typing import Final

from mocketmq.access.needs import Action, Need, to_consume
from mocketmq.broker.filters.filter import (
    EVERYTHING,
    KINDS,
    MAX_SQL_LENGTH,
    SQL92,
    TAG,
    Filter,
    parse_filter,
    prepare,
)
from mocketmq.broker.registry.clients import BROADCASTING, CLUSTERING, ConsumerData, Heartbeat, Subscription
from mocketmq.errors import InvalidArgumentError, RefusedError
from mocketmq.message.names import retry_topic
from mocketmq.remoting.access_rule import KEY, AccessRule, consumes
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.wire.body import JsonObject, object_of, objects_in, text_in, whole_in
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.fastjson import dumps
from mocketmq.remoting.wire.header import ConsumerGroupHeader, NoHeader, RequestHeader

_KINDS: Final = ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY")
_MODELS: Final = (BROADCASTING, CLUSTERING)
_STARTS: Final = (
    "CONSUME_FROM_LAST_OFFSET",
    "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
    "CONSUME_FROM_MIN_OFFSET",
    "CONSUME_FROM_MAX_OFFSET",
    "CONSUME_FROM_FIRST_OFFSET",
    "CONSUME_FROM_TIMESTAMP",
)
"""Choices in order, because C++ clients send the index of a choice instead of its name."""

MAX_SQL_TOGETHER: Final = 2 * MAX_SQL_LENGTH
"""Maximum total length of the SQL92 filters in one heartbeat, in characters."""


class UnregisterClientHeader(RequestHeader):
    """Names the groups that the client leaves."""

    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None


def _to_subscribe(command: Command) -> Iterator[Need]:
    """The permissions required to consume all topics that the heartbeat subscribes to."""
    for consumer in objects_in(object_of(command.body), "consumerDataSet"):
        group = text_in(consumer, "groupName")
        yield from to_consume(None, group)
        for subscription in objects_in(consumer, "subscriptionDataSet"):
            yield from to_consume(text_in(subscription, "topic") or None, group)


MEMBERSHIP: Final = RequestFamily("Clients and groups")


@Request(MEMBERSHIP, RequestCode.HEART_BEAT, access=AccessRule(_to_subscribe), is_for_slaves=True)
async def heartbeat(call: RemotingCall[NoHeader]) -> Response:
    """Register the client, its groups and its subscriptions, and create its groups' retry topics.

    The client must be registered before the first await, because its next request may rely on that.
    """
    beat, broker = _heartbeat_in(call.command), call.broker
    if call.channel.is_slave:  # a slave does not check back with producers
        beat = beat._replace(producers=[])
    broker.registry.clients.heartbeat(call.channel, beat)
    for one in beat.consumers:
        try:
            group = await broker.registry.groups.for_use(one.group)
        except RefusedError:
            continue  # the client stays registered, but its pulls are refused, as in RocketMQ
        await broker.registry.topics.ensure(retry_topic(group.name), group.retry_queues)
    return Response()


@Request(
    MEMBERSHIP,
    RequestCode.UNREGISTER_CLIENT,
    access=consumes(group="consumerGroup"),
    names={"client_id": "clientID"},
    is_for_slaves=True,
)
async def unregister(call: RemotingCall[UnregisterClientHeader]) -> Response:
    """Remove a client from its groups."""
    header = call.header
    call.broker.registry.clients.leave(call.channel, header.producer_group, header.consumer_group)
    return Response()


@Request(
    MEMBERSHIP,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    access=consumes(group="consumerGroup", actions=Action.SUB | Action.GET),
    is_for_slaves=True,
)
async def consumer_list(call: RemotingCall[ConsumerGroupHeader]) -> Response:
    """Return the ids of a group's clients, from which each client computes its queues."""
    group = call.broker.registry.clients.find_connected_group(call.header.consumer_group)
    if group is None:
        raise RemotingError(
            ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {call.header.consumer_group}"
        )
    return Response(body=dumps({"consumerIdList": group.client_ids(call.broker.registry.brokers.endpoints)}))


@Request(MEMBERSHIP, RequestCode.CHECK_CLIENT_CONFIG, access=KEY, is_for_slaves=True)
async def check_client_config(call: RemotingCall[NoHeader]) -> Response:
    """Check that the broker can apply a client's filter. Tags need no check."""
    wanted = object_of(call.command.body).get("subscriptionData")
    if isinstance(wanted, Mapping) and _kind(wanted) != TAG:
        await prepare(_kind(wanted))  # prepare now, because the next heartbeat cannot wait
        filter_of(str(wanted.get("subString") or ""), _kind(wanted), "Invalid MessageSelector. ")
    return Response()


def check_kind(kind: str) -> None:
    """Raise RemotingError unless the broker supports filter expressions of this kind."""
    if kind not in KINDS:
        raise RemotingError(
            ResponseCode.SYSTEM_ERROR, f"The broker does not support consumer to filter message by {kind}"
        )


def filter_of(expression: str | None, kind: str, prefix: str) -> Filter:
    """Parse the filter in a request. Raises RemotingError, whose text begins with ``prefix``."""
    check_kind(kind)
    try:
        return parse_filter(expression, kind)
    except InvalidArgumentError as error:
        raise RemotingError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"{prefix}{error}") from None


def _heartbeat_in(command: Command) -> Heartbeat:
    """Extract what the broker needs from a heartbeat, to free the body before groups are created."""
    body = object_of(command.body)
    _check_sql(body)
    return Heartbeat(
        text_in(body, "clientID"),
        command.language,
        command.version,
        [text_in(one, "groupName") for one in objects_in(body, "producerDataSet")],
        list(map(_consumer_data, objects_in(body, "consumerDataSet"))),
        is_brief=body.get("withoutSub") is True,
    )


def _check_sql(body: JsonObject) -> None:
    """Refuse filters that take too long to parse, because parsing a heartbeat blocks all other clients."""
    wanted = (
        each
        for one in objects_in(body, "consumerDataSet")
        for each in objects_in(one, "subscriptionDataSet")
        if _kind(each) == SQL92
    )
    size = sum(len(str(each.get("subString") or "")) for each in wanted)
    if size > MAX_SQL_TOGETHER:
        allowed = f"{MAX_SQL_TOGETHER:,} together"
        reason = f"the SQL92 filters of a heartbeat have {size:,} characters; allowed: {allowed}"
        raise InvalidArgumentError("subString", None, allowed, reason)


def _consumer_data(body: JsonObject) -> ConsumerData:
    return ConsumerData(
        text_in(body, "groupName"),
        _choice(body, "consumeType", _KINDS, "CONSUME_PASSIVELY"),
        _choice(body, "messageModel", _MODELS, CLUSTERING),
        _choice(body, "consumeFromWhere", _STARTS, _STARTS[0]),
        list(map(_subscription, objects_in(body, "subscriptionDataSet"))),
    )


def _subscription(body: JsonObject) -> Subscription:
    expression, kind = str(body.get("subString") or "*"), _kind(body)
    topic, version = text_in(body, "topic"), whole_in(body, "subVersion")
    try:
        tag_filter = parse_filter(expression, kind) if kind in KINDS else EVERYTHING
    except InvalidArgumentError as error:
        problem = str(error) if kind == SQL92 else None  # clients also filter by tag themselves
        return Subscription(topic, expression, version, kind, problem=problem)
    return Subscription(topic, expression, version, kind, tag_filter)


def _kind(body: JsonObject) -> str:
    return str(body.get("expressionType") or TAG)


def _choice(body: JsonObject, name: str, choices: tuple[str, ...], default: str) -> str:
    value = body.get(name)
    if isinstance(value, int) and 0 <= value < len(choices):
        return choices[value]
    return str(value) if value else default
