"""The message types that a topic accepts: its attribute ``message.type``, or by default all types."""

from typing import Final

from mocketmq.broker.registry.topic import Topic

NORMAL, FIFO, DELAY, TRANSACTION, LITE, PRIORITY = 1, 2, 3, 4, 5, 6
"""Values of MessageType."""
NAMES: Final = {
    NORMAL: "NORMAL",
    FIFO: "FIFO",
    DELAY: "DELAY",
    TRANSACTION: "TRANSACTION",
    LITE: "LITE",
    PRIORITY: "PRIORITY",
}
_MIXED: Final = (NORMAL, FIFO, DELAY, TRANSACTION)
_BY_NAME: Final = {name.lower(): (kind,) for kind, name in NAMES.items()}


def types_of(topic: Topic) -> tuple[int, ...]:
    """Return the message types in the topic's route. SDKs check messages against them before sending."""
    return _BY_NAME.get(topic.config.message_type, _MIXED)


def accepts(topic: Topic, kind: int) -> bool:
    """Whether clients may send messages of the type to the topic.

    A mixed topic also accepts priority messages, which RocketMQ leaves out of its route (RouteActivity and
    DefaultTopicMessageTypeValidator, 5.5.0).
    """
    types = types_of(topic)
    return kind in types or (kind == PRIORITY and types is _MIXED)
