"""The probe's interface to a cluster, for every protocol: delays, sent and received messages."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mocketmq.duration import format_duration
from mocketmq.schedule.level_table import LevelTable
from mocketmq.settings import Settings


class Delay(NamedTuple):
    """A delay: by ``level``, or else until an absolute due time this far ahead."""

    us: int
    level: int | None = None

    def __str__(self) -> str:
        """Such as ``level 3`` or ``30s``."""
        return format_duration(self.us) if self.level is None else f"level {self.level}"


@dataclass
class ProbedBroker:
    """A broker of the cluster; the ledger's instants are by its clock."""

    name: str
    address: str
    version: str = field(default="unknown", kw_only=True)


@dataclass
class Sent:
    """A sent message, with the local wall-clock times of send and response.

    Messages without ``delay`` measure the clock offset; their ``due_ms`` is in the past.
    """

    key: str
    broker: ProbedBroker
    delay: Delay | None
    due_ms: int  # absolute due time by the local clock, as clients compute it; meaningless for a level
    sent_us: int
    answered_us: int = 0
    is_stored: bool = False
    parked_offset: int | None = None
    stored_ms: int | None = None  # by the broker's clock
    message_id: str = ""  # if the cluster assigns an id other than the key


class Received(NamedTuple):
    """A received message: ``at_us`` by the local wall clock, milliseconds by the broker's."""

    key: str
    at_us: int
    delivered_ms: int
    stored_ms: int | None = None  # store time of the delayed message, if the delivery carries it
    queue_id: int | None = None
    queue_offset: int | None = None
    log_offset: int | None = None
    waited_from_us: int | None = None
    """The poll's start by the local clock, if ``delivered_ms`` is when the service handed the message out."""
    tells_first_delivery: bool = True
    """Whether ``delivered_ms`` is the first delivery's; some clusters store the message again each time."""


Poll = Callable[[], Awaitable[Sequence[Received]]]
"""Waits for messages; called in a loop. Raises EmulatorError, or KeyError or ValueError for an incomplete
response."""


class Cluster(ABC):
    """A probed cluster; ``notes`` say what could not be found out, ``table`` has the delay of each level."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.brokers: list[ProbedBroker] = []
        self.table = LevelTable.parse(Settings().levels)

    def note(self, sentence: str) -> None:
        """Add a note, unless it is already there."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    @abstractmethod
    async def open(self, topic: str, group: str) -> None:
        """Find the brokers, and make sure that the group receives all messages sent from now on.

        Raises ClusterError.
        """

    @abstractmethod
    async def send(self, sent: Sent, size: int) -> None:
        """Send the message, and record its times. Raises EmulatorError."""

    @abstractmethod
    def polls(self) -> Sequence[Poll]:
        """The polls that together receive all messages; one task runs each of them."""

    @abstractmethod
    async def close(self) -> None:
        """Close all connections."""
