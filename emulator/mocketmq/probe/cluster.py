"""A cluster that is probed, whatever protocol it is reached by: what a probe sends to it and receives."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mocketmq.duration import format_duration
from mocketmq.schedule.level_table import LevelTable
from mocketmq.settings import Settings


class Delay(NamedTuple):
    """How long messages are delayed: by a ``level``, or without one until a due time so far ahead."""

    us: int
    level: int | None = None

    def __str__(self) -> str:
        """Such as ``level 3`` or ``30s``."""
        return format_duration(self.us) if self.level is None else f"level {self.level}"


@dataclass
class ProbedBroker:
    """Has a clock of its own, by which the ledger's instants are."""

    name: str
    address: str
    version: str = field(default="unknown", kw_only=True)


@dataclass
class Sent:
    """A message that was sent, and answered by our wall clock.

    One without ``delay`` bounds the difference of the clocks; ``due_ms`` is past then.
    """

    key: str
    broker: ProbedBroker
    delay: Delay | None
    due_ms: int  # by our clock, as clients reckon it; not of a level
    sent_us: int
    answered_us: int = 0
    is_stored: bool = False
    parked_offset: int | None = None
    stored_ms: int | None = None  # by the broker's clock
    message_id: str = ""  # if the cluster gives it another one than the key


class Received(NamedTuple):
    """A message as it was received: ``at_us`` by our wall clock, milliseconds by the broker's."""

    key: str
    at_us: int
    delivered_ms: int
    stored_ms: int | None = None  # of the delayed message, if it is told here
    queue_id: int | None = None
    queue_offset: int | None = None
    log_offset: int | None = None
    waited_from_us: int | None = None
    """If ``delivered_ms`` is that of the hand-out: since when somebody waited for it, by our clock."""
    tells_first_delivery: bool = True
    """Whether ``delivered_ms`` is that of the first delivery; some clusters store a message anew for each."""


Poll = Callable[[], Awaitable[Sequence[Received]]]
"""Waits for messages, and is called again and again. Raises EmulatorError, or KeyError or
ValueError for an answer that lacks something."""


class Cluster(ABC):
    """``notes`` are sentences on what could not be found out; ``table`` says how long each level is."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.brokers: list[ProbedBroker] = []
        self.table = LevelTable.parse(Settings().levels)

    def note(self, sentence: str) -> None:
        """Note it, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    @abstractmethod
    async def open(self, topic: str, group: str) -> None:
        """Find the brokers, and make sure that the group receives what is sent from now on.

        Raises ClusterError.
        """

    @abstractmethod
    async def send(self, sent: Sent, size: int) -> None:
        """Send the message, and note when that was, and whether it is stored. Raises EmulatorError."""

    @abstractmethod
    def polls(self) -> Sequence[Poll]:
        """Together they receive all messages; each is called by one task."""

    @abstractmethod
    async def close(self) -> None:
        """Close all connections."""
