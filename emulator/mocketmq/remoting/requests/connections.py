"""Lists the connected clients by group (docs/protocol/remoting.md §2.10)."""

from typing import Any, Final

from mocketmq.broker.registry.clients import Member, Subscription
from mocketmq.clock import US_PER_MS
from mocketmq.message.properties import java_hash
from mocketmq.remoting.access_rule import reads
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.wire.codes import RemotingError, RequestCode, ResponseCode
from mocketmq.remoting.wire.fastjson import dumps
from mocketmq.remoting.wire.header import ConsumerGroupHeader, NoHeader, RequestHeader


class ProducerGroupHeader(RequestHeader):
    """Header of the request for a group's producers."""

    producer_group: str


CONNECTIONS: Final = RequestFamily("Connections")


@Request(
    CONNECTIONS,
    RequestCode.GET_CONSUMER_CONNECTION_LIST,
    access=reads(group="consumerGroup"),
    is_for_slaves=True,
)
async def consumers(call: RemotingCall[ConsumerGroupHeader]) -> Response:
    """List a group's consumers and their subscriptions."""
    name = call.header.consumer_group
    group = call.broker.registry.clients.find_connected_group(name)
    members = [member for member in _members(call) if name in member.consumers]
    if group is None or not members:
        raise RemotingError(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{name}] not online")
    body = {
        "connectionSet": list(map(_connection, members)),
        "consumeFromWhere": max(members, key=lambda member: member.seen_us).consumers[name].starts,
        "consumeType": group.kind,
        "messageModel": group.model,
        "subscriptionTable": {topic: subscription_data(each) for topic, each in group.subscriptions.items()},
    }
    return Response(body=dumps(body))


@Request(CONNECTIONS, RequestCode.GET_PRODUCER_CONNECTION_LIST, access=reads(), is_for_slaves=True)
async def producers(call: RemotingCall[ProducerGroupHeader]) -> Response:
    """List a group's producers."""
    name = call.header.producer_group
    members = [member for member in _members(call) if name in member.producers]
    if not members:
        raise RemotingError(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
    return Response(body=dumps({"connectionSet": list(map(_connection, members))}))


@Request(CONNECTIONS, RequestCode.GET_ALL_PRODUCER_INFO, access=reads(), is_for_slaves=True)
async def all_producers(call: RemotingCall[NoHeader]) -> Response:
    """List all producers, by group."""
    table: dict[str, list[dict[str, Any]]] = {}
    for member in _members(call):
        for name in member.producers:
            table.setdefault(name, []).append(
                {
                    "clientId": member.client_id,
                    "language": member.language,
                    "lastUpdateTimestamp": member.seen_us // US_PER_MS,
                    "remoteIP": member.channel.remote,
                    "version": member.version,
                }
            )
    return Response(body=dumps({"data": table}))


def _members(call: RemotingCall[Any]) -> list[Member]:
    """The clients connected to the broker that received the request, or by gRPC to all brokers."""
    indexes = (None, call.channel.broker_index)
    return [each for each in call.broker.registry.clients if each.channel.broker_index in indexes]


def subscription_data(wanted: Subscription) -> dict[str, Any]:
    """A subscription as JSON, in the form of SubscriptionData.java."""
    tags = sorted(tag for part in wanted.expression.split("||") if (tag := part.strip()) and tag != "*")
    return {
        "classFilterMode": False,
        "codeSet": [java_hash(tag) for tag in tags] if wanted.kind == "TAG" else [],
        "expressionType": wanted.kind,
        "subString": wanted.expression,
        "subVersion": wanted.version,
        "tagsSet": tags if wanted.kind == "TAG" else [],
        "topic": wanted.topic,
    }


def _connection(member: Member) -> dict[str, Any]:
    return {
        "clientAddr": member.channel.remote,
        "clientId": member.client_id,
        "language": member.language,
        "version": member.version,
    }
