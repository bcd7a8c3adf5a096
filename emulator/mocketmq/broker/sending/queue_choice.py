"""Chooses a message's queue: the requested queue, or a random queue. Also hashes message groups for gRPC."""

import random
from typing import Final

from mocketmq.broker.registry.brokers import ClusterBrokers
from mocketmq.broker.registry.topic import PERM_WRITE, Topic
from mocketmq.broker.registry.topics import check_is_at
from mocketmq.errors import BrokerDownError, NoPermissionError, WrongQueueError
from mocketmq.message.properties import java_hash
from mocketmq.store.queue import Queue


def queue_for_send(topic: Topic, queue_id: int | None, brokers: ClusterBrokers) -> Queue:
    """The queue for a message. For None or a negative id, a random writable queue, as in RocketMQ.

    Raises WrongQueueError; BrokerDownError or NoPermissionError if the queue's broker takes no messages.
    """
    if queue_id is None or queue_id < 0:
        if brokers.closed or topic.config.at:
            return _open_queue(topic, brokers)
        return topic.queues[int(random.random() * topic.writable_count)]  # noqa: S311 - spreads load
    if topic.config.at:
        check_is_at(topic, brokers[queue_id % topic.brokers])
        if not topic.at_broker(queue_id % topic.brokers).perm & PERM_WRITE:
            raise NoPermissionError(f"the topic[{topic.name}] sending message is forbidden")
        if (led := topic.led) is not None and queue_id not in led:
            raise NoPermissionError(
                f"no logical queue of static topic {topic.name} is mapped to queue {queue_id} now. Leave the"
                " choice of the queue to the broker"
            )
    count = topic.queue_limit(queue_id)
    if queue_id >= count:
        raise WrongQueueError(topic.name, queue_id, count)
    queue = topic.queues[queue_id]
    if brokers.closed:
        brokers.check_takes_sends(queue)
    return queue


def _open_queue(topic: Topic, brokers: ClusterBrokers) -> Queue:
    """A random writable queue of a broker that takes sends. Raises the errors of ``queue_for_send``."""
    reachable = [queue for queue in topic.writable if brokers.index_of(queue) not in brokers.unreachable]
    if not reachable:
        raise BrokerDownError(f"no broker of topic {topic.name} can be reached; start or reconnect one")
    opened = [queue for queue in reachable if brokers.index_of(queue) not in brokers.closed]
    if not opened:
        brokers.check_takes_sends(reachable[0])
    return random.choice(opened)  # noqa: S311 - spreads load


_MULTIPLIER: Final = 2_862_933_555_777_941_757
_MASK: Final = (1 << 64) - 1


def queue_of_group(group: str, queues: int) -> int:
    """Choose the queue of a message group as RocketMQ's proxy does.

    The choice is jump consistent hashing (Lamping and Veach, 2014) of Java's hash of the group's name, with
    the random numbers and the rounding of Guava's ``Hashing.consistentHash``.
    """
    state, at = java_hash(group) & _MASK, 0
    while True:
        state = (state * _MULTIPLIER + 1) & _MASK
        following = int((at + 1) * (1 << 31) / ((state >> 33) + 1))
        if following >= queues:
            return at
        at = following
