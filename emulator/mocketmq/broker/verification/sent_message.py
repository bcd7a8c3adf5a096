"""A message that a producer sent, with the positions of its deliveries, retries and dead letters."""

import msgspec

from mocketmq.store.queue import Queue


class QueuePosition(msgspec.Struct, frozen=True):
    """The position at which consumers find a record of a message, and the instant from which they do."""

    queue: Queue
    queue_offset: int
    log_offset: int
    at_us: int


class Again(msgspec.Struct, frozen=True):
    """The result of a group's last failure: a retry, parked until ``due_us``, or a dead letter."""

    position: QueuePosition | None  # None while it is parked
    due_us: int
    is_dead: bool


Identity = tuple[str, int]
"""The unique key, and the number of a message that was outside of the store, otherwise ``-1 - record``."""


class SentMessage:
    """A message that a producer sent. ``record`` identifies the record with its content.

    ``record`` is a log offset, or the number of a pending message outside of the store (``is_outside``).
    ``identity`` stays the same when such a message is delivered.
    ``positions`` are the positions of the message in its topic: none before its delivery, several if it was
    repeated.
    """

    __slots__ = (
        "again",
        "due_us",
        "identity",
        "is_cancelled",
        "is_lost",
        "is_outside",
        "level",
        "positions",
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
        self.due_us = due_us  # None: the message was not delayed
        self.level = level
        self.is_outside = is_outside
        self.is_cancelled = False
        self.is_lost = False  # by a crash of its broker
        self.positions: list[QueuePosition] = []
        self.again: dict[str, Again] = {}  # by group

    def current_position(self, group: str) -> QueuePosition | None:
        """The position at which the group finds the message now; None while it waits, or once it is dead."""
        again = self.again.get(group)
        if again is not None:
            return None if again.is_dead else again.position
        return self.positions[-1] if self.positions else None
