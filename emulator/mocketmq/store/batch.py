"""A transaction that the writer builds: its statements, its rows, and the functions to call afterwards."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from mocketmq.clock import LATEST_US
from mocketmq.message.message import Draft, RecordKind, StoredMessage
from mocketmq.store.messages import NO_LIMIT
from mocketmq.store.queue import Queue
from mocketmq.store.write_connection import TransactionSize

# The columns from ``due_us`` to ``prepared_offset`` are null in most messages, whose INSERT omits them.
# Python's sqlite3 looks for an adapter for each None, which took a third of the time of an INSERT.
_DUE_US: Final = StoredMessage._fields.index("due_us")
_DOOR: Final = StoredMessage._fields.index("door")
_USUAL: Final = StoredMessage._fields[:_DUE_US] + StoredMessage._fields[_DOOR:]
_NO_LINKS: Final = (None, None, None, None)
INSERT_MESSAGE: Final = f"INSERT INTO messages ({','.join(_USUAL)}) VALUES ({','.join('?' * len(_USUAL))})"
INSERT_DELAYED: Final = f"INSERT INTO messages VALUES ({','.join('?' * len(StoredMessage._fields))})"
_COPY_MESSAGE: Final = """
INSERT INTO messages
WITH copy(log_offset, queue_key, queue_offset, store_us, parked_offset) AS (VALUES (?, ?, ?, ?, ?))
SELECT copy.log_offset, copy.queue_key, copy.queue_offset, copy.store_us, born_us, born_host, store_host,
 flag, sys_flag, body, properties, tag_hash, reconsume_times, unique_key, NULL, NULL, parked.log_offset,
 prepared_offset, door, 'delivered'
FROM copy CROSS JOIN messages parked ON parked.log_offset = copy.parked_offset"""

_MOVE_MESSAGE: Final = """
UPDATE messages SET real_queue_key = coalesce(real_queue_key, queue_key), queue_key = ?, queue_offset = ?
WHERE log_offset = ?"""


class Appends:
    """The messages that a transaction appends to one queue. Sizes are those of bodies, in bytes."""

    __slots__ = ("largest", "next_offset", "size")

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.size = 0
        self.largest = 0

    def add(self, size: int) -> int:
        """Add a message and return its queue offset."""
        queue_offset = self.next_offset
        self.next_offset = queue_offset + 1
        self.size += size
        self.largest = max(self.largest, size)
        return queue_offset


class Batch:
    """A transaction being built. ``now_us`` is the store time of the next append."""

    def __init__(self, now_us: int, next_log_offset: int, store_host: str) -> None:
        self.now_us = now_us
        self.next_log_offset = next_log_offset
        self.appends: dict[Queue, Appends] = {}
        # Messages are inserted first because later statements may select them.
        self.statements: dict[str, list[Sequence[Any]]] = {
            INSERT_MESSAGE: [],
            INSERT_DELAYED: [],
            _COPY_MESSAGE: [],
        }
        self.after_commit: list[Callable[[], None]] = []
        self.after_rollback: list[Callable[[], None]] = []
        self.rows = 0
        self.bytes = 0
        self.is_sweep = False
        self.until_us = LATEST_US  # the timer fires nothing later than this in the same transaction
        self.undelivered = 0  # number of due messages that faults hold, or that cannot be delivered
        self._store_host = store_host

    def append(
        self,
        queue: Queue,
        draft: Draft,
        kind: RecordKind = "sent",
        *,
        due_us: int | None = None,
        real_queue_key: int | None = None,
        parked_offset: int | None = None,
    ) -> StoredMessage:
        """Append a message to the queue, as a record of this kind.

        A parked message has ``due_us`` and ``real_queue_key``. A delivered message has ``parked_offset``, the
        log offset of its parked record. A seeded message has its own store time, which must not precede
        that of an earlier record.
        """
        log_offset, queue_offset = self._place(queue, len(draft.body))
        store_us = self.now_us if draft.stored_us is None else draft.stored_us
        prepared_offset = draft.prepared_offset
        start = (
            log_offset,
            queue.key,
            queue_offset,
            store_us,
            store_us if draft.born_us is None else draft.born_us,
            draft.born_host,
            self._store_host,
            draft.flag,
            draft.sys_flag,
            draft.body,
            draft.properties,
            draft.tag_hash,
            draft.reconsume_times,
            draft.unique_key,
        )
        links = (due_us, real_queue_key, parked_offset, prepared_offset)
        end = (draft.door, kind)
        stored = tuple.__new__(StoredMessage, start + links + end)  # half the time of its own constructor
        if links == _NO_LINKS:
            self.execute(INSERT_MESSAGE, start + end)
        else:
            self.execute(INSERT_DELAYED, stored)
        return stored

    def copy(self, queue: Queue, parked_offset: int, size: int) -> int:
        """Append a copy of a parked message whose body has ``size`` bytes, and return its log offset.

        SQLite copies the row, so the body never passes through Python.
        """
        log_offset, queue_offset = self._place(queue, size)
        self.execute(_COPY_MESSAGE, (log_offset, queue.key, queue_offset, self.now_us, parked_offset))
        return log_offset

    def move(self, log_offset: int, queue: Queue) -> None:
        """Move a stored message to the end of another queue. Its real queue is then the former queue."""
        appends = self._appends_to(queue)
        queue_offset = appends.add(0)
        appends.largest = NO_LIMIT  # the size of its body is not known here
        self.execute(_MOVE_MESSAGE, (queue.key, queue_offset, log_offset))

    def _place(self, queue: Queue, size: int) -> tuple[int, int]:
        log_offset = self.next_log_offset
        self.next_log_offset = log_offset + 1
        self.bytes += size
        return log_offset, self._appends_to(queue).add(size)

    def _appends_to(self, queue: Queue) -> Appends:
        appends = self.appends.get(queue)
        if appends is None:
            appends = self.appends[queue] = Appends(queue.next_offset)
        return appends

    def execute(self, sql: str, row: Sequence[Any] = (), *, changes: int = 1) -> None:
        """Run ``sql`` with ``row`` in the transaction, which changes about so many rows of the database.

        All rows of one statement run together.
        """
        rows = self.statements.get(sql)
        if rows is None:
            self.statements[sql] = [row]
        else:
            rows.append(row)
        self.rows += changes

    def sweep(self, sql: str, row: Sequence[Any] = ()) -> None:
        """Like ``execute``, for a statement that may change many rows and so take long."""
        self.is_sweep = True
        self.execute(sql, row)

    def reach(self, instant_us: int) -> None:
        """Raise the store time of later appends to ``instant_us``, which a clock move has reached."""
        self.now_us = max(self.now_us, instant_us)

    @property
    def size(self) -> TransactionSize:
        """The size of the transaction, apart from its number of rows."""
        return TransactionSize(self.bytes, self.is_sweep)

    def on_commit(self, act: Callable[[], None]) -> None:
        """Call ``act`` after the commit and before any caller is answered. Change in-memory state here."""
        self.after_commit.append(act)

    def on_rollback(self, act: Callable[[], None]) -> None:
        """Call ``act`` if the transaction fails, before the next one is built."""
        self.after_rollback.append(act)
