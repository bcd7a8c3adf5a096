"""Divides a topic's queues among a group's clients, and sets whether the clients pull or pop (5.3.3)."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from mocketmq.access.needs import Need, to_consume
from mocketmq.broker.broker import Broker
from mocketmq.broker.registry.clients import BROADCASTING, CLUSTERING
from mocketmq.broker.registry.request_modes import ALL_QUEUES, PULL, STRATEGIES, RequestMode, assigned
from mocketmq.broker.registry.topic import PERM_READ
from mocketmq.errors import InvalidArgumentError
from mocketmq.remoting.access_rule import ADMIN, KEY, AccessRule
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.request import Request, RequestFamily
from mocketmq.remoting.wire.body import object_of, text_in, whole_in
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.fastjson import dumps
from mocketmq.remoting.wire.header import NoHeader

_MODELS: Final = (BROADCASTING, CLUSTERING)


def _to_consume(command: Command) -> Iterator[Need]:
    body = object_of(command.body)
    return to_consume(text_in(body, "topic") or None, text_in(body, "consumerGroup") or None)


ASSIGNMENT: Final = RequestFamily("Queue assignment")


@Request(ASSIGNMENT, RequestCode.QUERY_ASSIGNMENT, access=AccessRule(_to_consume), is_for_slaves=True)
async def query_assignment(call: RemotingCall[NoHeader]) -> Response:
    """Return a client's queues of a topic. An empty JSON object makes the client keep its queues."""
    body = object_of(call.command.body)
    topic, group, client = (text_in(body, name) for name in ("topic", "consumerGroup", "clientId"))
    mode = call.broker.registry.request_modes.of(topic, group)
    model = str(body.get("messageModel"))
    if model not in _MODELS:
        raise InvalidArgumentError("messageModel", model, " or ".join(_MODELS))
    queues = _queues(
        call.broker, mode, client, str(body.get("strategyName")), is_broadcast=model == BROADCASTING
    )
    if queues is None:
        return Response(body=dumps({}))
    assignments = [
        {"messageQueue": {"brokerName": name, "queueId": queue_id, "topic": topic}, "mode": mode.mode}
        for name, queue_id in queues
    ]
    return Response(body=dumps({"messageQueueAssignments": assignments}))


def _queues(
    broker: Broker, mode: RequestMode, client: str, strategy: str, *, is_broadcast: bool
) -> Sequence[tuple[str, int]] | None:
    """The client's queues, as pairs of broker name and queue id; None if the client must keep its queues."""
    topic, group = (
        broker.registry.topics.find_topic(mode.topic),
        broker.registry.clients.find_connected_group(mode.group),
    )
    if topic is None or not topic.readable:
        return None
    routed = broker.registry.brokers.routed(topic.brokers)
    at = {each.name: topic.at_broker(each.share.position) for each in routed}
    names = [name for name, here in at.items() if here.perm & PERM_READ]
    # In the order of MessageQueue.compareTo: by broker, then by id
    queues = [(name, queue_id) for name in names for queue_id in range(at[name].read_queues)]
    if is_broadcast:
        return queues
    if group is None or strategy not in STRATEGIES:
        return None
    clients = group.client_ids(broker.registry.brokers.endpoints)
    indexes = assigned(mode, STRATEGIES[strategy], len(queues), clients, client)
    if ALL_QUEUES in indexes:
        return [(name, ALL_QUEUES) for name in names]
    return [queues[index] for index in indexes]


@Request(ASSIGNMENT, RequestCode.SET_MESSAGE_REQUEST_MODE, access=ADMIN)
async def set_request_mode(call: RemotingCall[NoHeader]) -> Response:
    """Set whether a group pulls or pops a topic's messages from now on."""
    body = object_of(call.command.body)
    mode = str(body.get("mode") or PULL)
    topic, group = text_in(body, "topic"), text_in(body, "consumerGroup")
    await call.broker.registry.request_modes.put(
        RequestMode(topic, group, mode, whole_in(body, "popShareQueueNum"))
    )
    return Response()


@Request(ASSIGNMENT, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, access=KEY, is_for_slaves=True)
async def request_modes(call: RemotingCall[NoHeader]) -> Response:
    """List the modes that were set, by topic and group."""
    modes: dict[str, dict[str, Any]] = {}
    for topic, group, mode, share in call.broker.registry.request_modes:
        modes.setdefault(topic, {})[group] = {
            "consumerGroup": group,
            "mode": mode,
            "popShareQueueNum": share,
            "topic": topic,
        }
    return Response(body=dumps({"messageRequestModeMap": modes}))
