"""The message types that a topic takes: its attribute ``message.type``, or all if it has none."""

from typing import Final

from mocketmq.broker.registry.topics import Topic

NORMAL, FIFO, DELAY, TRANSACTION = 1, 2, 3, 4
"""Values of MessageType."""
_ALL: Final = (NORMAL, FIFO, DELAY, TRANSACTION)
_BY_ATTRIBUTE: Final = {
    "NORMAL": (NORMAL,),
    "FIFO": (FIFO,),
    "DELAY": (DELAY,),
    "TRANSACTION": (TRANSACTION,),
}


def types_of(topic: Topic) -> tuple[int, ...]:
    """What clients may send to the topic."""
    return _BY_ATTRIBUTE.get(topic.particulars.attributes.get("message.type", ""), _ALL)
