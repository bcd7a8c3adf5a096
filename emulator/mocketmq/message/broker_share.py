"""The brokers of a cluster, and how the queues of a topic are shared among them.

For clients, the queues of a topic on each broker are numbered from 0. Behind the front doors, the queues of
all brokers are numbered together, round robin: with two brokers, queues 0, 2 and 4 belong to the first broker
and 1, 3 and 5 to the second. The numbers therefore stay the same when a topic gets more queues. With one
broker, both numberings are the same.

System topics that only the broker fills, such as ``SCHEDULE_TOPIC_XXXX``, are not shared out.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from mocketmq.message.names import BROKER, TEMPLATE_TOPIC, expected_queues, is_system_topic

T = TypeVar("T")


class BrokerShare(NamedTuple):
    """A broker, by its ``position`` in the ``names`` of all brokers, and its share of each topic's queues."""

    names: tuple[str, ...] = (BROKER,)
    position: int = 0

    @property
    def name(self) -> str:
        return self.names[self.position]

    def number_of(self, topic: str, queue_id: int) -> int:
        """The number of this broker's queue among the queues of all brokers. A negative id is unchanged."""
        brokers = len(self.names)
        if brokers == 1 or queue_id < 0 or not is_shared_out(topic):
            return queue_id
        return queue_id * brokers + self.position

    def queue_id(self, topic: str, number: int) -> int:
        """The id that the queue with this number has on its broker."""
        brokers = len(self.names)
        return number if brokers == 1 or number < 0 or not is_shared_out(topic) else number // brokers

    def name_of(self, number: int) -> str:
        """The name of the broker that has the queue with this number."""
        return self.names[number % len(self.names)]

    def has_queue(self, topic: str, number: int) -> bool:
        """Whether the queue belongs to this broker. Queues that are not shared out belong to every broker.

        Queues of lite topics, whose numbers are negative, belong to the first broker.
        """
        brokers = len(self.names)
        return brokers == 1 or max(number, 0) % brokers == self.position or not is_shared_out(topic)

    def own_queues(self, topic: str, queues: Sequence[T]) -> Sequence[T]:
        """This broker's share of a topic's queues. ``queues`` must be in order of their numbers."""
        if len(self.names) == 1 or not is_shared_out(topic):
            return queues
        return queues[self.position :: len(self.names)]


ALONE: Final = BrokerShare()
"""The only broker."""


def broker_names(brokers: int) -> tuple[str, ...]:
    """The names of a cluster's brokers: ``broker-a``, ``broker-b`` and so on."""
    return tuple(f"{BROKER[:-1]}{chr(ord(BROKER[-1]) + index)}" for index in range(brokers))


def position_of(topic: str, number: int, brokers: int) -> int:
    """The position of the broker that has the queue with this number.

    Queues of lite topics, whose numbers are negative, and queues that are not shared out belong to the first
    broker.
    """
    return 0 if brokers == 1 or number < 0 or not is_shared_out(topic) else number % brokers


def is_shared_out(topic: str) -> bool:
    """Whether each broker has its own queues of the topic."""
    return not is_system_topic(topic) or topic == TEMPLATE_TOPIC or expected_queues(topic) > 0
