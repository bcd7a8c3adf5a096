"""How far one group has come in one queue.

All ways of consuming share this state: ``next_offset``, below which everything was given out or passed over,
and the receipts below it that are still open. What the group has not finished begins at the first open one:
that is its committed offset, where a pulling consumer starts to read and from which lag counts.
"""

from collections.abc import Iterable
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING

from mocketmq.store.offset_rows import save_progress
from mocketmq.store.queue import Queue
from mocketmq.store.writer import Batch

if TYPE_CHECKING:
    from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
    from mocketmq.broker.consuming.receipt import Receipt


class Notice(Enum):
    """A reset of which a group's pulling consumers do not know yet: what they commit is out of date."""

    DUE = auto()
    """The next pull is to be answered with the new offset."""
    GIVEN = auto()
    """A pull was. Its consumer goes on from there as soon as it has dropped what it holds."""


class GroupQueue:
    """How far a group has come in one queue.

    ``reported`` is the offset that its pulling consumers read or reported last, None before that. They go
    back only by reporting less: what they report may well be below what others have acknowledged since.
    ``attempt`` is the consumer's id of the last pop in order, "" if there was none, and ``ordered_pop_ms``
    that pop's ``pop_ms``, 0 if there was none. ``notice`` is None unless the pulling consumers have to hear
    of a reset; ``resets`` counts these.
    """

    __slots__ = (
        "attempt",
        "group",
        "next_offset",
        "notice",
        "open",
        "ordered_pop_ms",
        "pulled_offset",
        "queue",
        "reported",
        "resets",
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
        self.ordered_pop_ms = 0
        self.notice: Notice | None = None
        self.resets = 0
        self.open: dict[int, Receipt] = {}  # by queue offset

    @property
    def committed_offset(self) -> int:
        """The first offset that the group has not finished."""
        return min(min(self.open, default=self.next_offset), self.next_offset)

    @property
    def start_offset(self) -> int:
        """Where a pulling consumer begins."""
        return max(self.committed_offset, self.queue.min_offset)

    @property
    def given_offset(self) -> int:
        """The first offset that was not delivered to the group, as far as is known."""
        return max(self.next_offset, self.pulled_offset)

    @property
    def lag(self) -> int:
        """How many messages there are from the committed offset to the end of the queue."""
        return self.queue.next_offset - self.start_offset

    @property
    def in_flight(self) -> int:
        """How many messages were received and are not settled."""
        return sum(receipt.is_in_flight for receipt in self.open.values())

    def finish(self, offset: int) -> list["Receipt"]:
        """Take everything below ``offset`` for finished. Returns the receipts that this ended."""
        self.next_offset, self.reported = max(self.next_offset, offset), offset
        return self._end(receipt for receipt in self.open.values() if receipt.queue_offset < offset)

    def begin_at(self, offset: int) -> list["Receipt"]:
        """Go back or forward to ``offset``, whoever has what. Returns all receipts, which this ended."""
        self.next_offset = self.reported = offset
        return self._end(self.open.values())

    def _end(self, receipts: Iterable["Receipt"]) -> list["Receipt"]:
        ended = list(receipts)
        for receipt in ended:
            receipt.close()
        return ended

    def gives_notice(self, offset: int) -> bool:
        """Whether a pull from ``offset`` has to be answered with the new offset; a second one has not."""
        if self.notice is Notice.DUE and offset != self.start_offset:
            self.notice = Notice.GIVEN
            return True
        self.notice = None
        return False

    def save(self, batch: Batch, next_offset: int) -> None:
        """Save ``next_offset``, but never past a receipt that has no row: a kill would lose it."""
        unsaved = min(
            (offset for offset, receipt in self.open.items() if not receipt.has_row), default=next_offset
        )
        saved_offset = min(unsaved, next_offset)
        save_progress(batch, self.group.name, self.queue, saved_offset)
        batch.on_commit(partial(setattr, self, "saved_offset", saved_offset))
