"""What each RPC needs, as upstream (PlainAccessResource.java, 5.3.3, requests of v2).

Unlike upstream, a Telemetry stream that produces needs PUB of its topics, and a Heartbeat its group's SUB.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from mocketmq.access.accounts import Need, Permission, group_need, topic_need

_ANY: Final = Permission.PUB | Permission.SUB


def needs(rpc: str, request: Any) -> Iterable[Need]:
    """The permissions that a request needs. Every RPC has a row in the table."""
    return TABLE[rpc](request)


def settings_needs(settings: Any) -> Iterator[Need]:
    """The permissions that a client needs for the settings on its Telemetry stream."""
    for topic in settings.publishing.topics:
        yield topic_need(topic.name, Permission.PUB)
    if settings.WhichOneof("pub_sub") == "subscription":
        yield group_need(settings.subscription.group.name)
        for entry in settings.subscription.subscriptions:
            yield topic_need(entry.topic.name, Permission.SUB)


def _route(request: Any) -> Iterator[Need]:
    yield topic_need(request.topic.name, _ANY)


def _sends(request: Any) -> Iterator[Need]:
    return (topic_need(one.topic.name, Permission.PUB) for one in request.messages)


def _produces(request: Any) -> Iterator[Need]:
    yield topic_need(request.topic.name, Permission.PUB)


def _receives(request: Any) -> Iterator[Need]:
    yield topic_need(request.message_queue.topic.name, Permission.SUB)
    yield group_need(request.group.name)


def _consumes(request: Any) -> Iterator[Need]:
    yield topic_need(request.topic.name, Permission.SUB)
    yield group_need(request.group.name)


def _of_group(request: Any) -> Iterator[Need]:
    if request.group.name:  # producers have none
        yield group_need(request.group.name)


def _of_settings(request: Any) -> Iterator[Need]:  # noqa: ARG001 - checked when the settings come
    return iter(())


TABLE: Final[Mapping[str, Callable[[Any], Iterable[Need]]]] = {
    "QueryRoute": _route,
    "QueryAssignment": _consumes,
    "Heartbeat": _of_group,
    "NotifyClientTermination": _of_group,
    "SendMessage": _sends,
    "RecallMessage": _produces,
    "EndTransaction": _produces,  # and of the half message's own topic, which must be the one named
    "ReceiveMessage": _receives,
    "AckMessage": _consumes,
    "ChangeInvisibleDuration": _consumes,
    "ForwardMessageToDeadLetterQueue": _consumes,
    "Telemetry": _of_settings,
}
