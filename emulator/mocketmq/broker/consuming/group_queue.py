"""One group's progress in one queue.

All ways of consuming share this state. Below ``next_offset`` every message was delivered to the group or
skipped; some may have open receipts. The offset of the first open receipt, otherwise ``next_offset``, is the
committed offset. Pulling consumers start at the committed offset, and lag is counted from it.
"""

from collections.abc import Iterable
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING

from mocketmq.store.batch import Batch
from mocketmq.store.queue import Queue

if TYPE_CHECKING:
    from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
    from mocketmq.broker.consuming.receipt import Receipt
from mocketmq.store.database import Database


class Notice(Enum):
    """A reset of which pulling consumers were not notified yet. Until then, their commits are outdated."""

    DUE = auto()
    """The next pull will be answered with the new offset."""
    GIVEN = auto()
    """A pull was answered with the new offset. The consumer drops its messages and continues there."""


class GroupQueue:
    """A group's progress in one queue.

    ``reported`` is the last offset that the group's pulling consumers read or reported, or None. The group's
    offset is moved back only when they report a lower offset, because other members may have acknowledged
    more by receipt. ``attempt`` is the id that the consumer gave to the last ordered pop, or "";
    ``ordered_pop_ms`` is the ``pop_ms`` of that pop, or 0. ``notice`` is set while pulling consumers have yet
    to be notified of a reset. ``resets`` counts resets. ``is_deserted`` is set if all members have left since
    the last pull.
    """

    __slots__ = (
        "attempt",
        "group",
        "is_deserted",
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
        self.pulled_offset = 0  # the offset of the last pull
        self.is_deserted = False
        self.attempt = ""
        self.ordered_pop_ms = 0
        self.notice: Notice | None = None
        self.resets = 0
        self.open: dict[int, Receipt] = {}  # open receipts, by queue offset

    @property
    def committed_offset(self) -> int:
        """The first offset that the group has not settled."""
        return min(min(self.open, default=self.next_offset), self.next_offset)

    @property
    def start_offset(self) -> int:
        """The offset at which a pulling consumer begins."""
        return max(self.committed_offset, self.queue.min_offset)

    @property
    def given_offset(self) -> int:
        """The first offset not delivered to the group, as far as the broker can tell."""
        return max(self.next_offset, self.pulled_offset)

    @property
    def lag(self) -> int:
        """The number of messages from the committed offset to the end of the queue."""
        return self.queue.next_offset - self.start_offset

    @property
    def in_flight(self) -> int:
        """The number of messages that consumers have received, without postponed ones."""
        received = sum(one.is_in_flight and not one.waits_for_retry for one in self.open.values())
        if self.reported is None or self.is_deserted:
            return received
        pulled_to = min(self.pulled_offset, self.queue.next_offset)
        return received + max(pulled_to - max(self.next_offset, self.queue.min_offset), 0)

    @property
    def postponed(self) -> int:
        """The number of messages that consumers have postponed."""
        return sum(receipt.waits_for_retry for receipt in self.open.values())

    def finish(self, offset: int) -> list["Receipt"]:
        """Finish all messages below ``offset``. Returns the receipts that this has closed."""
        self.next_offset, self.reported = max(self.next_offset, offset), offset
        return self._end(receipt for receipt in self.open.values() if receipt.queue_offset < offset)

    def begin_at(self, offset: int) -> list["Receipt"]:
        """Go back or forward to ``offset``, close all receipts, and return these receipts."""
        self.next_offset = self.reported = offset
        return self._end(self.open.values())

    def cut(self, end: int) -> None:
        """Move back to the end of a queue that has lost its newest messages, and close their receipts."""
        self._end(receipt for receipt in self.open.values() if receipt.queue_offset >= end)
        self.next_offset, self.pulled_offset = min(self.next_offset, end), min(self.pulled_offset, end)
        if self.reported is not None:
            self.reported = min(self.reported, end)
        if self.saved_offset is not None:
            self.saved_offset = min(self.saved_offset, end)

    def begin_restored(self, saved_offset: int | None, *, has_notice: bool) -> None:
        """Begin at the offset in a restored store, or at the oldest message if there is none."""
        offset = self.queue.min_offset if saved_offset is None else saved_offset
        self.next_offset = self.pulled_offset = offset
        self.saved_offset, self.reported, self.is_deserted = saved_offset, None, False
        self.attempt, self.ordered_pop_ms = "", 0
        self.notice = Notice.DUE if has_notice else None
        self.resets += 1

    def _end(self, receipts: Iterable["Receipt"]) -> list["Receipt"]:
        ended = list(receipts)
        for receipt in ended:
            receipt.close()
        return ended

    def gives_notice(self, offset: int) -> bool:
        """Whether to answer a pull from ``offset`` with the new offset. Returns True once after a reset."""
        if self.notice is Notice.DUE and offset != self.start_offset:
            self.notice = Notice.GIVEN
            return True
        self.notice = None
        return False

    def save(self, batch: Batch, next_offset: int) -> None:
        """Save ``next_offset``, but not past a receipt without a row, as a kill would lose that receipt."""
        unsaved = min(
            (offset for offset, receipt in self.open.items() if not receipt.has_row), default=next_offset
        )
        saved_offset = min(unsaved, next_offset)
        save_progress(batch, self.group.name, self.queue, saved_offset)
        batch.on_commit(partial(setattr, self, "saved_offset", saved_offset))


_SAVE = (
    "INSERT INTO progress VALUES (?, ?, ?)"
    " ON CONFLICT (group_name, queue_key) DO UPDATE SET next_offset = excluded.next_offset"
)
_CUT = "UPDATE progress SET next_offset = ?1 WHERE queue_key = ?2 AND next_offset > ?1"
_DELETE = "DELETE FROM progress WHERE group_name = ? AND queue_key = ?"
_DELETE_OF_GROUP = "DELETE FROM progress WHERE group_name = ?"
_DELETE_OF_QUEUE = "DELETE FROM progress WHERE queue_key = ?"


async def read_progress(database: Database) -> list[tuple[str, int, int]]:
    """Read all rows: group name, queue key, and the group's next offset in that queue."""
    return [
        (row[0], row[1], row[2])
        for row in await database.rows("SELECT group_name, queue_key, next_offset FROM progress")
    ]


def save_progress(batch: Batch, group_name: str, queue: Queue, next_offset: int) -> None:
    """Add or update the row, unless a restored snapshot does not have the queue."""
    if not queue.is_gone:
        batch.execute(_SAVE, (group_name, queue.key, next_offset))


def cut_progress(batch: Batch, queue: Queue, end: int) -> None:
    """Move groups that are beyond this end of the queue back to it."""
    batch.execute(_CUT, (end, queue.key))


def delete_progress(batch: Batch, group_name: str, queue: Queue) -> None:
    """Delete the row."""
    batch.execute(_DELETE, (group_name, queue.key))


def delete_progress_of_group(batch: Batch, group_name: str) -> None:
    """Delete all rows of the group."""
    batch.sweep(_DELETE_OF_GROUP, (group_name,))


def delete_progress_of_queue(batch: Batch, queue: Queue) -> None:
    """Delete all rows of the queue."""
    batch.sweep(_DELETE_OF_QUEUE, (queue.key,))
