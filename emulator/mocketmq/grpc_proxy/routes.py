"""QueryRoute and QueryAssignment (RouteActivity.java, 5.3.3)."""

from collections.abc import Sequence
from typing import Any, Final

from mocketmq.broker.registry.brokers import RegisteredBroker
from mocketmq.broker.registry.topic import PERM_READ, PERM_WRITE, Topic
from mocketmq.broker.registry.topic_config import QueuesAtBroker
from mocketmq.errors import TopicNotFoundError
from mocketmq.grpc_proxy.call import Call, group_of, topic_of
from mocketmq.grpc_proxy.codes import Code, GrpcError
from mocketmq.grpc_proxy.messages import message_class
from mocketmq.grpc_proxy.topic_types import types_of
from mocketmq.hosts import split_address
from mocketmq.message.names import DLQ_PREFIX

ALL_QUEUES: Final = -1
_READ, _WRITE, _READ_WRITE = 2, 3, 4
_IPV4, _IPV6, _DOMAIN_NAME = 1, 2, 3

_Queue = message_class("MessageQueue")
_RouteAnswer = message_class("QueryRouteResponse")
_AssignmentAnswer = message_class("QueryAssignmentResponse")


async def query_route(call: Call) -> Any:
    """Return the topic's queues on all brokers.

    Each queue has the endpoints that the client named or, if every broker has its own endpoint, its broker's.
    """
    name = topic_of(call.request.topic)
    topic = await routed_topic(call, name)
    answer = _RouteAnswer()
    for registered in _routed(call, topic):
        at = topic.at_broker(registered.share.position)
        for queue_id in range(max(at.read_queues, at.write_queues)):
            permission = _permission(at, registered, queue_id)
            if permission:
                queue = answer.message_queues.add(accept_message_types=types_of(topic))
                queue.MergeFrom(_queue(call, registered, queue_id, permission))
    if not answer.message_queues:
        raise GrpcError(Code.FORBIDDEN, f"topic {name} is neither readable nor writable")
    answer.message_queues.sort(key=lambda queue: queue.permission)
    return answer


async def query_assignment(call: Call) -> Any:
    """Return a consumer's queues: an entry for each if the group is FIFO, otherwise one for each broker."""
    name, group_name = topic_of(call.request.topic), group_of(call.request.group)
    topic = await routed_topic(call, name)
    if not topic.readable:
        raise GrpcError(Code.FORBIDDEN, f"topic {name} is not readable")
    is_in_order = call.broker.registry.groups.is_in_order(group_name)
    answer = _AssignmentAnswer()
    for registered in _routed(call, topic):
        at = topic.at_broker(registered.share.position)
        if not at.perm & PERM_READ:
            continue
        permission = _READ_WRITE if registered.permits(at.perm) & PERM_WRITE else _READ
        is_by_queue = is_in_order and not topic.config.is_lite
        for queue_id in range(at.read_queues) if is_by_queue else (ALL_QUEUES,):
            queue = _queue(call, registered, queue_id, permission)
            answer.assignments.add().message_queue.CopyFrom(queue)
    return answer


async def routed_topic(call: Call, name: str) -> Topic:
    """Return the topic. Creates it on first use, and likewise the dead-letter topic of an existing group.

    Raises TopicNotFoundError.
    """
    registry = call.broker.registry
    if name.startswith(DLQ_PREFIX) and registry.groups.find_group(name.removeprefix(DLQ_PREFIX)):
        return await registry.topics.ensure(name, 1)
    return await registry.used_topics.for_route(name, is_needed=True)


def _routed(call: Call, topic: Topic) -> Sequence[RegisteredBroker]:
    """Return the brokers that the name server lists for the topic. Raises TopicNotFoundError if none."""
    routed = call.broker.registry.brokers.routed(topic.brokers)
    found = [each for each in routed if topic.is_at(each.share.position)]
    if not found:
        raise TopicNotFoundError(
            f"no broker of topic {topic.name} is listed in routes; start one of them again"
        )
    return found


def _permission(at: QueuesAtBroker, registered: RegisteredBroker, queue_id: int) -> int:
    perm = registered.permits(at.perm)
    may_read = perm & PERM_READ and queue_id < at.read_queues
    may_write = perm & PERM_WRITE and queue_id < at.write_queues
    if may_read and may_write:
        return _READ_WRITE
    return _READ if may_read else _WRITE if may_write else 0


def _queue(call: Call, registered: RegisteredBroker, queue_id: int, permission: int) -> Any:
    queue = _Queue(id=queue_id, permission=permission)
    queue.topic.CopyFrom(call.request.topic)
    queue.broker.name = registered.name
    endpoints = queue.broker.endpoints
    endpoints.CopyFrom(call.request.endpoints)
    if not endpoints.addresses:
        endpoints.addresses.add(host=call.settings.host, port=call.settings.grpc_port)
    if registered.grpc_port is not None:
        del endpoints.addresses[1:]
        endpoints.addresses[0].port = registered.grpc_port
        if registered.advertise:
            endpoints.scheme = 0
            endpoints.addresses[0].host, _ = split_address(registered.advertise, 0)
    if not endpoints.scheme:
        endpoints.scheme = _scheme_of(endpoints.addresses[0].host)
    return queue


def _scheme_of(host: str) -> int:
    if ":" in host:
        return _IPV6
    return _IPV4 if host.replace(".", "").isdecimal() else _DOMAIN_NAME
