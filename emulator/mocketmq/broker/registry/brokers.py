"""The cluster's brokers: which of them run, and which of them the name server lists.

All brokers share this process and its store. A broker consists of a share of each topic's queues
(``message/broker_share.py``), its own ports, and the state kept here. A restart of the process forgets this
state: all brokers then run.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from mocketmq.broker.registry.topic import PERM_WRITE
from mocketmq.broker.registry.topic_config import ABSENT, QueuesAtBroker
from mocketmq.clock import US_PER_S, Clock
from mocketmq.errors import BrokerDownError, BrokerNotFoundError, InvalidArgumentError, NoPermissionError
from mocketmq.message.broker_share import ALONE, BrokerShare, position_of
from mocketmq.store.queue import Queue

ROUTE_LIFETIME_US: Final = 120 * US_PER_S
"""Time on the broker's clock after which routes omit a silent broker (brokerChannelExpiredTime)."""
DOWN: Final = " down"
"""Suffix of the names of downtimes, which the ledger gives as the reason why messages are late."""

BrokerState = Literal["running", "crashed", "shut-down"]
CutOff = Literal["clients", "name-servers"]
"""What a running broker can be cut off from."""


class BrokerCondition(NamedTuple):
    """The condition of a broker; by default it runs, and all is well.

    ``silent_us`` is the instant, by the broker's clock, at which its heartbeats to name servers stopped.
    ``is_promoted`` means that the slave has become the master: the ports of the two have changed roles.
    """

    state: BrokerState = "running"
    silent_us: int | None = None
    cut_off_from: frozenset[CutOff] = frozenset()
    is_read_only: bool = False
    is_promoted: bool = False
    is_slave_down: bool = False


HEALTHY: Final = BrokerCondition()


class BrokerChange(NamedTuple):
    """A change of a broker at an instant. ``after_offset`` is the newest log offset at that time."""

    at_us: int
    after_offset: int
    broker: str
    what: str


class RegisteredBroker:
    """A broker and its condition. ``port`` is 0 without remoting.

    ``slave_port`` is the port of its slave, or None without a slave or without remoting. ``slave_id`` is the
    slave's id in routes. A promotion exchanges the roles of the two ports, but not the ports themselves.
    ``vip_port`` and ``slave_vip_port`` are None without a VIP channel. ``grpc_port`` is None unless the
    broker has its own gRPC endpoint. ``advertise`` is the ``host`` or ``host:port`` that clients are given,
    or None.
    """

    def __init__(self, share: BrokerShare, *, has_slave: bool) -> None:
        self.share = share
        self.has_slave = has_slave
        self.port = 0
        self.vip_port: int | None = None
        self.slave_port: int | None = None
        self.slave_vip_port: int | None = None
        self.slave_id = 1
        self.grpc_port: int | None = None
        self.advertise: str | None = None
        self.condition = HEALTHY

    @property
    def state(self) -> BrokerState:
        """Whether the broker runs, or how it has ended."""
        return self.condition.state

    @property
    def is_reachable(self) -> bool:
        """Whether clients can reach the broker."""
        return self.state == "running" and "clients" not in self.condition.cut_off_from

    @property
    def has_running_slave(self) -> bool:
        """Whether the broker has a slave that runs."""
        return self.has_slave and not self.condition.is_slave_down

    def ports_by_role(self, *, is_promoted: bool) -> tuple[int, int | None]:
        """The ports of the master and of the slave, which is None without one."""
        if is_promoted and self.slave_port is not None:
            return self.slave_port, self.port
        return self.port, self.slave_port

    @property
    def master_port(self) -> int:
        """The port of the master, which takes messages."""
        return self.ports_by_role(is_promoted=self.condition.is_promoted)[0]

    def permits(self, perm: int) -> int:
        """The part of a topic's permission that the broker grants."""
        return perm & ~PERM_WRITE if self.condition.is_read_only else perm

    @property
    def trouble(self) -> str:
        """Why clients cannot reach the broker, and what to do about it, as text for an error."""
        if self.state == "running":
            return "is cut off from clients; reconnect it"
        return f"is {self.state}; start it again"

    @property
    def name(self) -> str:
        return self.share.name

    @property
    def downtime(self) -> str:
        """The reason why the broker's messages are late, as the ledger names it: ``broker-b down``.

        No fault rule has such a name, because names of rules have no spaces.
        """
        return f"{self.name}{DOWN}"


class ClusterBrokers:
    """All brokers, in the order of their indexes.

    ``down`` has the indexes of brokers that do not run. ``unreachable`` also has brokers cut off from
    clients, and ``closed`` read-only brokers as well. ``endpoints`` is the number of brokers and slaves. The
    functions ``on_changed`` are called after each change.

    With ``acting_after_us``, name servers forget a silent broker after that time instead of 120 s. Its slave
    is then an acting master: it stands in for the broker, but accepts no messages.
    """

    def __init__(
        self, clock: Clock, names: tuple[str, ...], slaves: int = 0, acting_after_us: int | None = None
    ) -> None:
        self._clock = clock
        self._route_lifetime_us = ROUTE_LIFETIME_US if acting_after_us is None else acting_after_us
        self.has_acting_masters = acting_after_us is not None
        shares = [BrokerShare(names, position) for position in range(len(names))]
        if names == ALONE.names:
            shares = [ALONE]
        self._all = [RegisteredBroker(share, has_slave=bool(slaves)) for share in shares]
        self.names = names
        self.endpoints = len(names) * (1 + slaves)
        self.down: frozenset[int] = frozenset()
        self.unreachable: frozenset[int] = frozenset()
        self.closed: frozenset[int] = frozenset()
        self.on_changed: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[RegisteredBroker]:
        return iter(self._all)

    def __getitem__(self, index: int) -> RegisteredBroker:
        return self._all[index]

    @property
    def only_name(self) -> str | None:
        """The name of the only broker, which serves all requests; None in a cluster of several."""
        return self.names[0] if len(self._all) == 1 else None

    def broker_named(self, name: str) -> RegisteredBroker:
        """The broker. Raises BrokerNotFoundError."""
        for each in self._all:
            if each.name == name:
                return each
        raise BrokerNotFoundError(name, self.names)

    def placed(self, queues: Mapping[str, QueuesAtBroker]) -> Mapping[int, QueuesAtBroker]:
        """Turn the queues by broker name into queues by position, with ``ABSENT`` for all other brokers.

        Raises InvalidArgumentError for an unknown name.
        """
        for name in queues:
            if name not in self.names:
                raise InvalidArgumentError("brokers", name, " or ".join(self.names))
        return {position: queues.get(name, ABSENT) for position, name in enumerate(self.names)}

    def set_condition(self, broker: RegisteredBroker, condition: BrokerCondition) -> None:
        broker.condition = condition
        self.down = self._where(lambda each: each.state != "running")
        self.unreachable = self._where(lambda each: not each.is_reachable)
        self.closed = self.unreachable | self._where(lambda each: each.condition.is_read_only)
        for act in self.on_changed:
            act()

    def _where(self, applies: Callable[[RegisteredBroker], bool]) -> frozenset[int]:
        return frozenset(each.share.position for each in self._all if applies(each))

    def is_routed(self, broker: RegisteredBroker) -> bool:
        """Whether the name server lists the broker."""
        until_us = self.routed_until_us(broker)
        return broker.state != "shut-down" and (until_us is None or self._clock.now_us() < until_us)

    def routed_until_us(self, broker: RegisteredBroker) -> int | None:
        """The instant until which the name server lists a silent broker, or None."""
        silent_us = broker.condition.silent_us
        return None if silent_us is None else silent_us + self._route_lifetime_us

    def is_acting(self, broker: RegisteredBroker) -> bool:
        """Whether the slave of the broker is an acting master."""
        return self.has_acting_masters and broker.has_running_slave and not self.is_routed(broker)

    def routed(self, brokers: int | None = None) -> Sequence[RegisteredBroker]:
        """The brokers that the name server lists, out of all or the first ``brokers``."""
        return [each for each in self._all[:brokers] if self.is_routed(each)]

    def offered(self, queues: Sequence[Queue]) -> Sequence[Queue]:
        """The queues that routes offer to producers."""
        if all(each.condition == HEALTHY for each in self._all):
            return queues
        offering = {
            each.share.position
            for each in self._all
            if self.is_routed(each) and not each.condition.is_read_only
        }
        return [queue for queue in queues if self.index_of(queue) in offering]

    def check_is_reachable(self, share: BrokerShare) -> None:
        """Raise BrokerDownError if clients cannot reach the broker with this share.

        In a cluster, ``ALONE`` means no particular broker.
        """
        if share.position in self.unreachable and len(share.names) == len(self._all):
            raise BrokerDownError(f"{share.name} {self._all[share.position].trouble}")

    def check_has_reachable_broker(self, queue: Queue) -> None:
        """Raise BrokerDownError if clients cannot reach the queue's broker."""
        broker = self.broker_of_queue(queue)
        if broker.share.position in self.unreachable:
            raise BrokerDownError(
                f"{broker.name}, which holds the message's queue of {queue.topic}, {broker.trouble}"
            )

    def check_takes_sends(self, queue: Queue) -> None:
        """Raise BrokerDownError or NoPermissionError if the queue's broker accepts no sends."""
        self.check_has_reachable_broker(queue)
        broker = self.broker_of_queue(queue)
        if broker.share.position in self.closed:
            raise NoPermissionError(f"the broker[{broker.name}] sending message is forbidden")

    def broker_of_queue(self, queue: Queue) -> RegisteredBroker:
        """The broker that has the queue. The first one has the queues that are not shared out."""
        return self._all[self.index_of(queue)]

    def name_of(self, queue: Queue) -> str:
        """The name of the broker that has the queue."""
        return self.broker_of_queue(queue).name

    def index_of(self, queue: Queue) -> int:
        """The index of the broker that has the queue. Lite topics belong to the first."""
        return position_of(queue.topic, queue.queue_id, len(self._all))

    def queue_id(self, queue: Queue) -> int:
        """The queue's id on its broker, which clients see."""
        return self._all[0].share.queue_id(queue.topic, queue.queue_id)

    def downtime(self, queue: Queue) -> str | None:
        """The downtime that holds deliveries to the queue, as the ledger names it, or None."""
        return self.broker_of_queue(queue).downtime if self.is_down(queue) else None

    def is_down(self, queue: Queue) -> bool:
        """Whether the queue's broker does not run."""
        return bool(self.down) and self.index_of(queue) in self.down
