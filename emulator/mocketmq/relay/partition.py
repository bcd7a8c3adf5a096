"""The relay's interface to the partitions of a delay topic in a real broker, and to their assignment.

Each partition of the delay topic has a *pending log* in the broker, which records the kept and the settled
messages. The log has all durable state, so a relay that takes over a partition needs only that log.
"""

from collections.abc import AsyncGenerator, Collection, Sequence
from typing import NamedTuple, Protocol, TypeVar

from mocketmq.errors import EmulatorError


class RelayError(EmulatorError):
    """The relay cannot continue."""


class RetryableError(RelayError):
    """The broker has failed temporarily. The caller should retry later."""


class EarlierFirstError(RelayError):
    """Earlier messages, which could not be sent before, can be sent now and must not be overtaken."""


class LostPartitionError(RelayError):
    """The relay has lost its hold on a partition, and must take over the partition again to continue."""


class RelayTopics(NamedTuple):
    """The names of the delay topic and of the relay's own topics."""

    delayed: str
    pending: str
    refused: str


class RelayedMessage(NamedTuple):
    """A kept message. ``content`` is the whole message in its broker's format.

    ``number`` follows the order of arrival and never changes. ``due_us`` is a multiple of a millisecond.
    """

    id: str
    number: int
    due_us: int
    content: bytes


class Settled(NamedTuple):
    """A log entry that marks a kept message as forwarded or refused."""

    number: int
    due_us: int


A = TypeVar("A")
"""A message of the delay topic, in its broker's format."""


class Partition(Protocol[A]):
    """A partition of the delay topic and its pending log.

    A relay holds it from :meth:`restore` to :meth:`close`, which may be repeated. While the relay holds the
    partition, ``keep`` and ``forward`` may run concurrently.
    """

    @property
    def name(self) -> str:
        """A name for logs, such as ``orders-delay-3``."""

    @property
    def refused(self) -> int:
        """The number of messages sent to the refused topic."""

    def restore(self) -> AsyncGenerator[Sequence[RelayedMessage | Settled], None]:
        """Exclude the previous owner, and return the pending log, in order.

        Raises RetryableError and LostPartitionError.
        """

    async def arrivals(self) -> Sequence[A]:
        """Wait for the next messages of the delay topic. May be cancelled.

        Raises RetryableError and LostPartitionError.
        """

    async def keep(self, arrivals: Sequence[A]) -> Sequence[RelayedMessage]:
        """Judge these arrivals, log the kept messages and the read position, and return the kept messages.

        All is durable on return. After a RetryableError the caller must repeat the call with the same
        messages. Also raises LostPartitionError.
        """

    async def forward(self, due: Sequence[RelayedMessage]) -> Collection[str]:
        """Send these messages to their real topics and settle them in the log.

        Returns the ids of the messages that were sent durably. The caller must retry the others later. Raises
        RetryableError if no message could be tried, EarlierFirstError if the caller must first retry the
        messages that could not be sent, and LostPartitionError.
        """

    async def close(self) -> None:
        """Release the partition. May be called twice."""


class Cluster(Protocol[A]):
    """A group of relays that divides the partitions of a delay topic."""

    async def open(self) -> None:
        """Create missing topics and join the group. Raises RelayError."""

    async def changed(self) -> Collection[Partition[A]]:
        """Wait until this relay's assignment changes, and return all of its partitions.

        The object of a partition stays the same across calls. Raises RelayError if the group cannot be used.
        """

    async def close(self) -> None:
        """Leave the group."""
