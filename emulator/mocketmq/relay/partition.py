"""The relay's interface to a real broker: the partitions of a delay topic and their assignment.

Each partition of the delay topic has a *pending log* in the broker, which records the messages kept and
settled. The log holds all durable state, so a relay that takes a partition over only reads its log.
"""

from collections.abc import AsyncGenerator, Collection, Sequence
from typing import NamedTuple, Protocol, TypeVar

from mocketmq.errors import EmulatorError


class RelayError(EmulatorError):
    """The relay cannot work."""


class TroubleError(RelayError):
    """The broker failed for now; retry later."""


class LostPartitionError(RelayError):
    """The relay lost its hold on a partition; taking it over anew is the only way on."""


class Pending(NamedTuple):
    """A kept message; ``content`` is the whole message in its broker's format.

    ``number`` follows the order of arrival and never changes; ``due_us`` is a whole millisecond.
    """

    id: str
    number: int
    due_us: int
    content: bytes


class Settled(NamedTuple):
    """Marks a kept message as forwarded or refused."""

    number: int
    due_us: int


A = TypeVar("A")
"""A message of the delay topic, in its broker's format."""


class Partition(Protocol[A]):
    """A partition of the delay topic and its pending log.

    A relay holds it from :meth:`restore` to :meth:`close`, any number of times. Meanwhile ``keep`` and
    ``forward`` may run concurrently.
    """

    @property
    def name(self) -> str:
        """A name for logs, such as ``orders-delay-3``."""

    @property
    def refused(self) -> int:
        """The number of messages sent to the refused topic."""

    def restore(self) -> AsyncGenerator[Sequence[Pending | Settled], None]:
        """Shut the previous owner out and return the pending log, in order.

        Raises TroubleError and LostPartitionError.
        """

    async def arrivals(self) -> Sequence[A]:
        """Wait for the next messages of the delay topic. May be cancelled.

        Raises TroubleError and LostPartitionError.
        """

    async def keep(self, arrivals: Sequence[A]) -> Sequence[Pending]:
        """Judge these arrivals, log the kept ones and the read position, and return the kept ones.

        Durable on return. After a TroubleError the caller repeats the call with the same messages. Raises
        LostPartitionError, too.
        """

    async def forward(self, due: Sequence[Pending]) -> Collection[str]:
        """Send these to their real topics and settle them in the log.

        Returns the ids of the messages sent, durably; the caller retries the others later. Raises
        TroubleError if none could be tried, and LostPartitionError.
        """

    async def close(self) -> None:
        """Release the partition. May be called twice."""


class Cluster(Protocol[A]):
    """A group of relays that divides the partitions of a delay topic."""

    async def open(self) -> None:
        """Create missing topics and join the group. Raises RelayError."""

    async def changed(self) -> Collection[Partition[A]]:
        """Wait until this relay's assignment changes, and return all of its partitions.

        A partition keeps its object across calls. Raises RelayError when the group cannot be used.
        """

    async def close(self) -> None:
        """Leave the group."""
