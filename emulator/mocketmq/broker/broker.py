"""The broker as the front doors use it: a field for most of its packages, and the parts that they share."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from mocketmq.broker.clock_mover import ClockMover
from mocketmq.broker.consuming.consuming import Consuming
from mocketmq.broker.inspection.inspection import Inspection
from mocketmq.broker.outage import Outage
from mocketmq.broker.registry.registry import Registry
from mocketmq.broker.removal.removal import Removal
from mocketmq.broker.sending.replies import Replies
from mocketmq.broker.sending.sender import Sender
from mocketmq.broker.transactions.transactions import Transactions
from mocketmq.broker.verification.verification import Verification
from mocketmq.broker.watching.watching import Watching
from mocketmq.clock import Clock
from mocketmq.faults.faults import Faults
from mocketmq.schedule.held_deliveries import HeldDeliveries
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.schedule.timer import Timer
from mocketmq.store.store import Store


@dataclass(frozen=True, eq=False)
class Broker:
    """A running broker, as :func:`~mocketmq.broker.building.open_broker` makes it.

    ``tasks`` run in the background until it is closed; one that ends earlier has failed.
    """

    store: Store
    faults: Faults
    outage: Outage
    timer: Timer
    mover: ClockMover
    levels: LevelQueues
    schemes: SchemeSet
    held: HeldDeliveries
    registry: Registry
    sender: Sender
    replies: Replies
    consuming: Consuming
    transactions: Transactions
    inspection: Inspection
    verification: Verification
    watching: Watching
    removal: Removal
    tasks: Sequence[asyncio.Task[None]]

    @property
    def clock(self) -> Clock:
        """The clock by which everything is stored and delivered."""
        return self.store.clock
