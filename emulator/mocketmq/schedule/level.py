"""One delay level: its queue, its delay offset, and its read-ahead."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from mocketmq.schedule.level_table import LevelTable
from mocketmq.store.database import Database
from mocketmq.store.queue import Queue

_OLDEST_DELAY = (
    "SELECT due_us - store_us FROM messages WHERE queue_key = ? AND queue_offset >= ?"
    " ORDER BY queue_offset LIMIT 1"
)


class LevelState(NamedTuple):
    """One row of the level table. Instants in emulated microseconds."""

    level: int
    delay_us: int
    pending: int
    delay_offset: int
    max_offset: int
    next_due_us: int | None
    oldest_overdue_us: int | None  # due time of the oldest overdue message


class Parked(NamedTuple):
    """A pending message without its content."""

    queue_offset: int
    log_offset: int
    store_us: int
    due_us: int
    real_queue_key: int
    size: int  # bytes of the body


class Level:
    """One level queue, and its delay offset ``next_offset``, up to which messages have been delivered."""

    __slots__ = (
        "ahead",
        "delay_us",
        "largest_unread",
        "next_offset",
        "number",
        "queue",
        "read_to",
        "saved_offset",
        "settled",
    )

    def __init__(self, number: int, delay_us: int, queue: Queue, next_offset: int) -> None:
        self.number = number
        self.delay_us = delay_us
        self.queue = queue
        self.next_offset = next_offset
        self.saved_offset = next_offset
        self.ahead: deque[Parked] = deque()
        self.read_to = next_offset  # messages below this offset are delivered, settled or in ``ahead``
        # Size of the largest body, in bytes, from ``read_to`` on; None if not known, as at the start.
        self.largest_unread: int | None = 0 if self.is_read else None
        self.settled: set[int] = set()  # offsets, not below the delay offset, of cancelled or forced messages

    @property
    def pending(self) -> int:
        return self.queue.next_offset - self.next_offset - len(self.settled)

    @property
    def first_pending(self) -> int:
        """An offset before which no message is pending. Higher than ``next_offset`` after cancellations."""
        return self.ahead[0].queue_offset if self.ahead else self.read_to

    @property
    def is_read(self) -> bool:
        """Whether all pending messages are in the read-ahead."""
        return self.read_to >= self.queue.next_offset

    def passed(self, queue_offset: int) -> None:
        """Move the delay offset to ``queue_offset``, below which every message is settled."""
        while self.ahead and self.ahead[0].queue_offset < queue_offset:
            self.ahead.popleft()
        self.next_offset = queue_offset
        self.read_to = max(self.read_to, queue_offset)
        if self.settled:
            self.settled = {offset for offset in self.settled if offset >= queue_offset}


async def load_levels(
    database: Database, table: LevelTable, queues: Sequence[Queue]
) -> tuple[list[Level], list[str]]:
    """Load the levels, and warnings about levels whose delay changed while messages were pending.

    Saved offsets are clamped to the queue (``correctDelayOffset``, docs/protocol/remoting.md §5.5).
    """
    saved = dict(await database.rows("SELECT * FROM delay_offsets"))
    interventions: dict[int, set[int]] = {}
    for queue_key, queue_offset in await database.rows(
        "SELECT queue_key, queue_offset FROM interventions i"
        " JOIN messages m ON m.log_offset = i.parked_offset"
    ):
        interventions.setdefault(queue_key, set()).add(queue_offset)
    levels, warnings = [], []
    for queue in queues:
        number = queue.queue_id + 1
        offset = saved.get(number, queue.min_offset)
        level = Level(
            number, table.delay_us(number), queue, min(max(offset, queue.min_offset), queue.next_offset)
        )
        level.settled = {o for o in interventions.get(queue.key, ()) if o >= level.next_offset}
        levels.append(level)
        if level.pending and (number > table.highest or await _was_changed(database, level)):
            warnings.append(
                f"level {number} was changed with {level.pending} messages pending: they keep the due times"
                " that they were given, and messages sent to it now wait behind them; in profile rocketmq4,"
                " those due later than the new delay allows are delivered at once"
            )
    return levels, warnings


async def _was_changed(database: Database, level: Level) -> bool:
    """Whether the oldest pending message was parked with a different delay than the level has now."""
    oldest = await database.rows(_OLDEST_DELAY, (level.queue.key, level.next_offset))
    return bool(oldest) and oldest[0][0] != level.delay_us
