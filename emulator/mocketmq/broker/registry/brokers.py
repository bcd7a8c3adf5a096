"""The cluster's brokers: which of them run, and which of them the name server lists.

All brokers share this process and its store. A broker is a share of each topic's queues
(``message/broker_share.py``), ports of its own, and the state kept here, which a restart of the process
forgets: all brokers then run.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from mocketmq.clock import US_PER_S, Clock
from mocketmq.errors import BrokerDownError, BrokerNotFoundError
from mocketmq.message.broker_share import ALONE, BrokerShare, is_shared_out
from mocketmq.store.queue import Queue

ROUTE_LIFETIME_US: Final = 120 * US_PER_S
"""Time on the broker's clock for which routes name a broker that has crashed (brokerChannelExpiredTime)."""

BrokerState = Literal["running", "crashed", "shut-down"]


class RegisteredBroker:
    """A broker and its state. ``port`` is 0 without remoting.

    ``crashed_us`` is the instant of its crash by the broker's clock.
    """

    def __init__(self, share: BrokerShare) -> None:
        self.share = share
        self.port = 0
        self.vip_port: int | None = None
        self.state: BrokerState = "running"
        self.crashed_us = 0

    @property
    def name(self) -> str:
        """The broker's name."""
        return self.share.name

    @property
    def downtime(self) -> str:
        """The reason why the broker's messages are late, as the ledger names it: ``broker-b down``.

        No fault rule has such a name, because names of rules have no spaces.
        """
        return f"{self.name} down"


class ClusterBrokers:
    """All brokers, in the order of their indexes."""

    def __init__(self, clock: Clock, names: tuple[str, ...]) -> None:
        self._clock = clock
        shares = (
            [BrokerShare(names, position) for position in range(len(names))] if len(names) > 1 else [ALONE]
        )
        self._all = [RegisteredBroker(share) for share in shares]
        self.names = names
        self.down: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[RegisteredBroker]:
        return iter(self._all)

    def __getitem__(self, index: int) -> RegisteredBroker:
        return self._all[index]

    @property
    def only_name(self) -> str | None:
        """The name of the only broker, which all requests are for; None in a cluster of several."""
        return self.names[0] if len(self._all) == 1 else None

    def broker_named(self, name: str) -> RegisteredBroker:
        """The broker. Raises BrokerNotFoundError."""
        for each in self._all:
            if each.name == name:
                return each
        raise BrokerNotFoundError(name, self.names)

    def set_state(self, broker: RegisteredBroker, state: BrokerState, crashed_us: int | None = None) -> None:
        """Set a broker's state. A crash is at the current instant unless ``crashed_us`` is given."""
        if state == "crashed":
            broker.crashed_us = self._clock.now_us() if crashed_us is None else crashed_us
        broker.state = state
        self.down = frozenset(each.share.position for each in self._all if each.state != "running")

    def running_index(self) -> int:
        """The index of a random broker that runs; that of the first one if none does."""
        running = [index for index in range(len(self._all)) if index not in self.down]
        return random.choice(running) if running else 0  # noqa: S311 - spreads load

    def is_routed(self, broker: RegisteredBroker) -> bool:
        """Whether the name server lists the broker."""
        if broker.state == "crashed":
            return self._clock.now_us() < broker.crashed_us + ROUTE_LIFETIME_US
        return broker.state == "running"

    def routed(self, brokers: int | None = None) -> Sequence[RegisteredBroker]:
        """The brokers that the name server lists, out of all or the first ``brokers``."""
        return [each for each in self._all[:brokers] if self.is_routed(each)]

    def check_is_running(self, share: BrokerShare) -> None:
        """Raise BrokerDownError if the broker with this share is down. ``ALONE`` in a cluster names none."""
        if share.position in self.down and len(share.names) == len(self._all):
            raise BrokerDownError(f"{share.name} is {self._all[share.position].state}; start it again")

    def broker_of_queue(self, queue: Queue) -> RegisteredBroker:
        """The broker that has the queue. The first one has the queues that are not shared out."""
        return self._all[self.index_of(queue)]

    def name_of(self, queue: Queue) -> str:
        """The name of the broker that has the queue."""
        return self.broker_of_queue(queue).name

    def index_of(self, queue: Queue) -> int:
        """The index of the broker that has the queue. Lite topics belong to the first."""
        if len(self._all) == 1 or queue.queue_id < 0 or not is_shared_out(queue.topic):
            return 0
        return queue.queue_id % len(self._all)

    def queue_id(self, queue: Queue) -> int:
        """The queue's id at its broker, which is the one that clients see."""
        return self._all[0].share.queue_id(queue.topic, queue.queue_id)

    def downtime(self, queue: Queue) -> str | None:
        """The downtime that holds deliveries to the queue, as the ledger names it, or None."""
        return self.broker_of_queue(queue).downtime if self.is_down(queue) else None

    def is_down(self, queue: Queue) -> bool:
        """Whether the queue's broker does not run."""
        return bool(self.down) and self.index_of(queue) in self.down
