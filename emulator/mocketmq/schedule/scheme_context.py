"""The parts of the broker that a delay scheme works with."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from mocketmq.clock import wall_us
from mocketmq.schedule.delivery import Catch
from mocketmq.schedule.ledger import Ledger
from mocketmq.store.queue import Queue
from mocketmq.store.store import Store

_OTHERS_NUMBER: Final = 1 << 60
"""Numbers come from the wall clock, which never gets here: a larger one was chosen by somebody else."""


class Numbers:
    """Numbers messages outside of the store: above any log offset, and differently on each broker."""

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        """A new number, above all before."""
        self.last = max(self.last + 1, wall_us())
        return self.last

    def note(self, number: int) -> None:
        """Note a number that a message bears already: later ones are above it."""
        if number < _OTHERS_NUMBER:
            self.last = max(self.last, number)


class TopicQueues(Protocol):
    """A topic, as far as a scheme has to know."""

    @property
    def queues(self) -> Sequence[Queue]:
        """By queue id."""


class TopicLookup(Protocol):
    """The broker's topics, as far as a scheme has to know."""

    def get(self, name: str) -> TopicQueues:
        """The topic. Raises TopicNotFoundError."""

    def queue(self, key: int) -> Queue:
        """The queue with this key, whose topic may have been deleted."""

    async def ensure(self, name: str, queues: int) -> TopicQueues:
        """The topic, made with this many queues if it does not exist."""


@dataclass(frozen=True)
class SchemeContext:
    """The collaborators that all schemes of a broker share."""

    store: Store
    started_us: int  # emulated
    ledger: Ledger
    topics: TopicLookup
    parked_queue: Queue  # in which messages that wait are shown
    changed: Callable[[], None]  # to be called when something is due earlier than all before
    on_delivered: Callable[[int], None]
    leaving: asyncio.Lock  # the timer's, under which messages leave
    catch: Catch  # lets an injected fault hold a delivery
    numbers: Numbers = field(default_factory=Numbers)
