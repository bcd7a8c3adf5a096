"""The table ``progress``: the offset that each group has reached in each queue."""

from mocketmq.store.batch import Batch
from mocketmq.store.database import Database
from mocketmq.store.queue import Queue

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
    """Add or update the row."""
    batch.execute(_SAVE, (group_name, queue.key, next_offset))


def cut_progress(batch: Batch, queue: Queue, end: int) -> None:
    """Let no group be beyond this end of the queue."""
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
