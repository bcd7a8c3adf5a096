"""One queue of a topic: the range of offsets that it holds."""

from emulator.store.database import Database


class Queue:
    """A queue as of the last commit: messages ``min_offset`` to ``next_offset - 1``."""

    __slots__ = ("key", "min_offset", "next_offset", "queue_id", "topic")

    def __init__(
        self, key: int, topic: str, queue_id: int, min_offset: int = 0, next_offset: int = 0
    ) -> None:
        self.key = key
        self.topic = topic
        self.queue_id = queue_id
        self.min_offset = min_offset
        self.next_offset = next_offset

    def __repr__(self) -> str:
        return f"<{self.topic}:{self.queue_id} [{self.min_offset}, {self.next_offset})>"


async def load_queues(database: Database) -> list[Queue]:
    """Every queue, its next offset taken from its newest message."""
    rows = await database.rows(
        "SELECT key, topic, queue_id, min_offset, max(next_offset, coalesce("
        "(SELECT queue_offset + 1 FROM messages WHERE queue_key = key ORDER BY queue_offset DESC LIMIT 1), 0)"
        ") FROM queues ORDER BY topic, queue_id"
    )
    return [Queue(*row) for row in rows]
