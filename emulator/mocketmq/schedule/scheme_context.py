"""The parts of the broker that a delay scheme works with."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from mocketmq.clock import wall_us
from mocketmq.schedule.delivery import Catch, DeliveryListener
from mocketmq.schedule.ledger import LedgerWriter
from mocketmq.store.queue import Queue
from mocketmq.store.store import Store

_OTHERS_NUMBER: Final = 1 << 60
"""Lower bound of foreign numbers. Own numbers stay below it, because they come from the wall clock."""


class Numbers:
    """Numbers messages outside of the store by the wall clock, above all log offsets, different by broker."""

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        """Return a new number, above all earlier ones."""
        self.last = max(self.last + 1, wall_us())
        return self.last

    def note(self, number: int) -> None:
        """Note a number in use. Later numbers will be above it."""
        if number < _OTHERS_NUMBER:
            self.last = max(self.last, number)


class TopicQueues(Protocol):
    """The part of a topic that a scheme uses."""

    @property
    def queues(self) -> Sequence[Queue]:
        """The topic's queues, by queue id."""


class TopicLookup(Protocol):
    """The topic look-ups that a scheme uses."""

    def get(self, name: str) -> TopicQueues:
        """The topic. Raises TopicNotFoundError."""

    def levels(self) -> Iterable[Queue]:
        """The queues of the delay levels."""

    def queue(self, key: int) -> Queue:
        """The queue with this key. Its topic may have been deleted."""

    async def ensure(self, name: str, queues: int) -> TopicQueues:
        """The topic, created with this number of queues if it does not exist."""


@dataclass(frozen=True)
class SchemeContext:
    """The collaborators that all schemes of a broker share."""

    store: Store
    started_us: int  # emulated instant of the broker's start
    ledger: LedgerWriter
    topics: TopicLookup
    parked_queue: Queue  # the queue shown for pending messages outside of the store
    changed: Callable[[], None]  # call it when a message is due earlier than all others
    on_delivered: DeliveryListener
    leaving: asyncio.Lock  # the timer's lock, to hold while messages leave the scheme
    catch: Catch  # lets an injected fault hold a delivery
    numbers: Numbers = field(default_factory=Numbers)
