"""Converts queue ids at one of several brokers to and from numbers among the queues of all brokers."""

import random
from typing import Any

from msgspec.structs import replace

from mocketmq.broker.registry.topics import Topics
from mocketmq.errors import QueueNotFoundError
from mocketmq.message.broker_share import BrokerShare


def numbered(header: Any, share: BrokerShare, topics: Topics) -> Any:
    """Return the header with the number of its queue; see ``message/broker_share.py``.

    A send that leaves the choice of the queue to its broker gets a random one there.
    """
    queue_id = getattr(header, "queue_id", None)
    if queue_id is None:
        return header
    if queue_id < 0 and hasattr(header, "default_topic"):
        topic = topics.find_topic(header.topic)
        queues = topic.at_broker(share.position).write_queues if topic else 0
        queue_id = random.randrange(max(queues, 1))  # noqa: S311 - spreads load
    return replace(header, queue_id=share.number_of(header.topic, queue_id))


def at_broker(error: QueueNotFoundError, share: BrokerShare) -> QueueNotFoundError:
    """Return the error with the ids at the broker, as its clients know them."""
    topic = error.topic
    return type(error)(topic, share.queue_id(topic, error.queue_id), share.queue_id(topic, error.count))
