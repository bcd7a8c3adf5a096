"""The probe's interface to a cluster, which is the same for every protocol."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mocketmq.duration import format_duration
from mocketmq.schedule.level_table import LevelTable
from mocketmq.settings import Settings


class Delay(NamedTuple):
    """A delay, either by ``level`` or until an absolute due time that is this far ahead."""

    us: int
    level: int | None = None

    def __str__(self) -> str:
        """The delay as text, such as ``level 3`` or ``30s``."""
        return format_duration(self.us) if self.level is None else f"level {self.level}"


@dataclass
class ProbedBroker:
    """A broker of the cluster. Instants in the ledger are by the broker's clock."""

    name: str
    address: str
    version: str = field(default="unknown", kw_only=True)


@dataclass
class SentProbe:
    """A sent message, with the local wall-clock times of send and response.

    Messages without ``delay`` measure the clock offset; their ``due_ms`` is in the past.
    """

    key: str
    broker: ProbedBroker
    delay: Delay | None
    due_ms: int  # absolute due time by the local clock, as clients compute it; unused with a delay level
    sent_us: int
    answered_us: int = 0
    is_stored: bool = False
    parked_offset: int | None = None
    stored_ms: int | None = None  # by the broker's clock
    message_id: str = ""  # if the cluster assigns an id other than the key


class ReceivedProbe(NamedTuple):
    """A received message. ``at_us`` is by the local wall clock, milliseconds are by the broker's clock."""

    key: str
    at_us: int
    delivered_ms: int
    stored_ms: int | None = None  # store time of the delayed message, if the delivery carries it
    queue_id: int | None = None
    queue_offset: int | None = None
    log_offset: int | None = None
    waited_from_us: int | None = None
    """Local start of the poll, if ``delivered_ms`` is the time at which the service returned the message."""
    tells_first_delivery: bool = True
    """Whether ``delivered_ms`` is the first delivery's time; some clusters store each redelivery again."""


Poll = Callable[[], Awaitable[Sequence[ReceivedProbe]]]
"""Waits for messages, and is called in a loop. Raises EmulatorError; for an incomplete response, KeyError or
ValueError."""


class ProbedCluster(ABC):
    """A probed cluster. ``notes`` lists facts that are missing; ``table`` has the delay of each level."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.brokers: list[ProbedBroker] = []
        self.table = LevelTable.parse(Settings().levels)

    def note(self, sentence: str) -> None:
        """Add a note, unless it already exists."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    @abstractmethod
    async def open(self, topic: str, group: str) -> None:
        """Find the brokers, and make sure that the group receives all messages sent from now on.

        Raises ClusterError.
        """

    @abstractmethod
    async def send(self, sent: SentProbe, size: int) -> None:
        """Send the message, and record its times. Raises EmulatorError."""

    @abstractmethod
    def polls(self) -> Sequence[Poll]:
        """The polls that together receive all messages. Each poll runs in its own task."""

    @abstractmethod
    async def close(self) -> None:
        """Close all connections."""
