"""Converts between the id of a queue on its broker and its number among the queues of all brokers."""

import random
from typing import Any

from msgspec.structs import replace

from mocketmq.broker.registry.topics import Topics
from mocketmq.errors import QueueNotFoundError
from mocketmq.message.broker_share import BrokerShare


def numbered(header: Any, share: BrokerShare, topics: Topics) -> Any:
    """Replace the queue id in the header by the queue's number; see ``message/broker_share.py``.

    If a send leaves the choice of the queue to the broker, a queue of this broker is chosen at random.
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
    """Replace the queue numbers in the error by ids on the broker, because clients know only these ids."""
    topic = error.topic
    return type(error)(topic, share.queue_id(topic, error.queue_id), share.queue_id(topic, error.count))
