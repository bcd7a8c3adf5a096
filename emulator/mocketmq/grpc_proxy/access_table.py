"""What each RPC needs, as upstream (PlainAccessResource.java, 5.3.3, requests of v2).

Unlike upstream, a Telemetry stream that produces needs PUB of its topics, and a Heartbeat its group's SUB.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from mocketmq.access.accounts import Need, to_consume, to_look_up, to_produce


def needs(rpc: str, request: Any) -> Iterable[Need]:
    """The permissions that a request needs. Every RPC has a row in the table."""
    return TABLE[rpc](request)


def settings_needs(settings: Any) -> Iterator[Need]:
    """The permissions that a client needs for the settings on its Telemetry stream."""
    for topic in settings.publishing.topics:
        yield from to_produce(topic.name)
    if settings.WhichOneof("pub_sub") == "subscription":
        group = settings.subscription.group.name
        yield from to_consume(None, group)
        for entry in settings.subscription.subscriptions:
            yield from to_consume(entry.topic.name, group)


def _route(request: Any) -> Iterator[Need]:
    return to_look_up(request.topic.name)


def _sends(request: Any) -> Iterator[Need]:
    for message in request.messages:
        yield from to_produce(message.topic.name)


def _produces(request: Any) -> Iterator[Need]:
    return to_produce(request.topic.name)


def _receives(request: Any) -> Iterator[Need]:
    return to_consume(request.message_queue.topic.name, request.group.name)


def _consumes(request: Any) -> Iterator[Need]:
    return to_consume(request.topic.name, request.group.name)


def _of_group(request: Any) -> Iterator[Need]:
    return to_consume(None, request.group.name or None)  # producers have none


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
