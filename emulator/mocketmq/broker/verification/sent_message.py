"""A message that a producer sent, and where what became of it is."""

from typing import NamedTuple

from mocketmq.store.queue import Queue


class QueuePlace(NamedTuple):
    """Where consumers find a record of a message, and since when."""

    queue: Queue
    queue_offset: int
    log_offset: int
    at_us: int


class Again(NamedTuple):
    """What a group's last failure made of a message: a retry, parked until ``due_us``, or a dead letter."""

    place: QueuePlace | None  # None while it is parked
    due_us: int
    is_dead: bool


Identity = tuple[str, int]
"""The unique key, and the number of a message that was outside of the store; of others ``-1 - record``."""


class SentMessage:
    """A message that a producer sent. ``record`` has its content.

    It is a log offset, or the number of a message that waits outside of the store (``is_outside``).
    ``identity`` stays the same when that is delivered.
    ``places`` are the records in its topic: none before it is delivered, several if it was repeated.
    """

    __slots__ = (
        "again",
        "due_us",
        "identity",
        "is_cancelled",
        "is_outside",
        "level",
        "places",
        "queue",
        "record",
        "sent_us",
        "unique_key",
    )

    def __init__(
        self,
        identity: Identity,
        queue: Queue,
        sent_us: int,
        record: int,
        *,
        due_us: int | None = None,
        level: int | None = None,
        is_outside: bool = False,
    ) -> None:
        self.identity = identity
        self.unique_key = identity[0]
        self.queue = queue
        self.sent_us = sent_us
        self.record = record
        self.due_us = due_us  # None: it was not delayed
        self.level = level
        self.is_outside = is_outside
        self.is_cancelled = False
        self.places: list[QueuePlace] = []
        self.again: dict[str, Again] = {}  # by group

    def last_at(self, group: str) -> QueuePlace | None:
        """Where the group is to find it now; None while it waits, and once it is dead."""
        again = self.again.get(group)
        if again is not None:
            return None if again.is_dead else again.place
        return self.places[-1] if self.places else None
