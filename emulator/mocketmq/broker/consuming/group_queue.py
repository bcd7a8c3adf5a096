"""How far one group has come in one queue.

All ways of consuming share this state: ``next_offset``, below which everything was given out or passed over,
and the takes below it that are still open. What the group has not finished begins at the first open one:
that is its committed offset, where a pulling consumer starts to read and from which lag counts.
"""

from functools import partial
from typing import TYPE_CHECKING

from mocketmq.store.progress import save_progress
from mocketmq.store.queue import Queue
from mocketmq.store.writer import Batch

if TYPE_CHECKING:
    from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
    from mocketmq.broker.consuming.take import Take


class GroupQueue:
    """How far a group has come in one queue.

    ``reported`` is the offset that its pulling consumers read or reported last, None before that. They go
    back only by reporting less: what they report may well be below what others have acknowledged since.
    ``attempt`` is the consumer's id of the last pop in order, "" if there was none.
    """

    __slots__ = (
        "attempt",
        "group",
        "next_offset",
        "open",
        "pulled_offset",
        "queue",
        "reported",
        "saved_offset",
    )

    def __init__(self, group: "ConsumingGroup", queue: Queue, next_offset: int) -> None:
        self.group = group
        self.queue = queue
        self.next_offset = next_offset
        self.saved_offset: int | None = None  # the stored ``next_offset``
        self.reported: int | None = None
        self.pulled_offset = 0  # where the last pull of its consumers began
        self.attempt = ""
        self.open: dict[int, Take] = {}  # by queue offset

    @property
    def committed_offset(self) -> int:
        """The first offset that the group has not finished."""
        return min(min(self.open, default=self.next_offset), self.next_offset)

    @property
    def given_offset(self) -> int:
        """The first offset that was not delivered to the group, as far as is known."""
        return max(self.next_offset, self.pulled_offset)

    @property
    def lag(self) -> int:
        """How many messages there are from the committed offset to the end of the queue."""
        return self.queue.next_offset - max(self.committed_offset, self.queue.min_offset)

    @property
    def in_flight(self) -> int:
        """How many messages were received and are not settled."""
        return sum(take.is_in_flight for take in self.open.values())

    def save(self, batch: Batch, next_offset: int) -> None:
        """Save ``next_offset``, but never past a take that has no row: a kill would lose it."""
        unsaved = min((offset for offset, take in self.open.items() if not take.has_row), default=next_offset)
        saved_offset = min(unsaved, next_offset)
        save_progress(batch, self.group.name, self.queue, saved_offset)
        batch.on_commit(partial(setattr, self, "saved_offset", saved_offset))
