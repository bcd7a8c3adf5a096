"""Chooses the queue of a message."""

import random

from mocketmq.broker.registry.brokers import ClusterBrokers
from mocketmq.broker.registry.topic import Topic
from mocketmq.errors import BrokerDownError, WrongQueueError
from mocketmq.store.queue import Queue


def queue_for_send(topic: Topic, queue_id: int | None, brokers: ClusterBrokers) -> Queue:
    """The queue for a message. For None or a negative id, a random writable queue, as upstream.

    Raises WrongQueueError; BrokerDownError or NoPermissionError if the queue's broker takes no messages.
    """
    if queue_id is None or queue_id < 0:
        if brokers.closed:
            return _open_queue(topic, brokers)
        return topic.queues[int(random.random() * topic.writable_count)]  # noqa: S311 - spreads load
    count = max(topic.readable_count, topic.writable_count)
    if queue_id >= count:
        raise WrongQueueError(topic.name, queue_id, count)
    queue = topic.queues[queue_id]
    if brokers.closed:
        brokers.check_takes_sends(queue)
    return queue


def _open_queue(topic: Topic, brokers: ClusterBrokers) -> Queue:
    """A random writable queue of a broker that takes sends. Raises like ``queue_for_send``."""
    queues = topic.queues[: topic.writable_count]
    reachable = [queue for queue in queues if brokers.index_of(queue) not in brokers.unreachable]
    if not reachable:
        raise BrokerDownError(f"no broker of topic {topic.name} can be reached; start or reconnect one")
    opened = [queue for queue in reachable if brokers.index_of(queue) not in brokers.closed]
    if not opened:
        brokers.check_takes_sends(reachable[0])
    return random.choice(opened)  # noqa: S311 - spreads load
