"""The message types that a topic takes: its attribute ``message.type``, or all if it has none."""

from typing import Final

from mocketmq.broker.registry.topics import Topic

NORMAL, FIFO, DELAY, TRANSACTION = 1, 2, 3, 4
"""Values of MessageType."""
_ALL: Final = (NORMAL, FIFO, DELAY, TRANSACTION)
_BY_NAME: Final = {"normal": (NORMAL,), "fifo": (FIFO,), "delay": (DELAY,), "transaction": (TRANSACTION,)}


def types_of(topic: Topic) -> tuple[int, ...]:
    """What clients may send to the topic."""
    return _BY_NAME.get(topic.config.message_type, _ALL)
