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
    """The relay lost a partition, which a relay must take over anew."""


class Pending(NamedTuple):
    """A message that is kept. ``content`` is all of it, in the form of its broker's side.

    ``number`` rises in order of arrival, and never changes; ``due_us`` is a whole millisecond.
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
"""A message of the delay topic, in the form of its broker's side."""


class Partition(Protocol[A]):
    """A partition of the delay topic, and its pending log; ``name`` is for people.

    Held from :meth:`restore` to :meth:`close`, and may be held again. While it is held, ``keep`` and
    ``forward`` may be called at the same time.
    """

    @property
    def name(self) -> str:
        """Such as ``orders-delay-3``."""

    @property
    def refused(self) -> int:
        """How many messages went to the topic of refused ones."""

    def restore(self) -> AsyncGenerator[Sequence[Pending | Settled], None]:
        """Take it over: nobody who held it can change it any more. Then the pending log, in order.

        Raises TroubleError and LostPartitionError.
        """

    async def arrivals(self) -> Sequence[A]:
        """The next messages of the delay topic: waits for some. May be cancelled.

        Raises TroubleError and LostPartitionError.
        """

    async def keep(self, arrivals: Sequence[A]) -> Sequence[Pending]:
        """Judge these; note what is kept in the log, and that all have been read. Gives what is kept.

        Durable on return. Raises TroubleError, after which it is called with the same messages again, and
        LostPartitionError.
        """

    async def forward(self, due: Sequence[Pending]) -> Collection[str]:
        """Send these to their real topics, and note in the log that they are settled.

        Gives the ids of those that have left, durable on return; the others are tried again later. Raises
        TroubleError if nothing could be tried, and LostPartitionError.
        """

    async def close(self) -> None:
        """End the hold. May be called twice."""


class Cluster(Protocol[A]):
    """The delay topic in a group of relays."""

    async def open(self) -> None:
        """Make sure that the topics are there, and join the group. Raises RelayError."""

    async def changed(self) -> Collection[Partition[A]]:
        """Wait until this relay's partitions are others than it was told last; all of them.

        The same object stands for the same partition. Raises RelayError when the group cannot be used.
        """

    async def close(self) -> None:
        """Leave the group."""
