"""A queue of a topic: the range of offsets that it holds."""

from mocketmq.store.database import Database


class Queue:
    """A queue as of the last commit: messages ``min_offset`` to ``next_offset - 1``.

    ``first_offset`` is the offset at which the queue began, or at which a reset emptied it. ``emptied_at`` is
    the next log offset when its topic was last reset or deleted. Earlier records no longer count, including
    those of delayed messages.
    """

    __slots__ = ("emptied_at", "first_offset", "key", "min_offset", "next_offset", "queue_id", "topic")

    def __init__(
        self,
        key: int,
        topic: str,
        queue_id: int,
        min_offset: int = 0,
        next_offset: int = 0,
        first_offset: int = 0,
        emptied_at: int = 0,
    ) -> None:
        self.key = key
        self.topic = topic
        self.queue_id = queue_id
        self.min_offset = min_offset
        self.next_offset = next_offset
        self.first_offset = first_offset
        self.emptied_at = emptied_at

    @property
    def is_young(self) -> bool:
        """Whether no message has been removed from the queue since it began."""
        return self.min_offset <= self.first_offset

    @property
    def place(self) -> tuple[str, int]:
        """The topic and the queue's number in it."""
        return self.topic, self.queue_id

    def __repr__(self) -> str:
        return f"<{self.topic}:{self.queue_id} [{self.min_offset}, {self.next_offset})>"


async def load_queues(database: Database) -> list[Queue]:
    """Load every queue. A queue's next offset follows from its newest message.

    In a queue emptied by retention or a reset, it comes from the stored lower bound instead.
    """
    rows = await database.rows(
        "SELECT key, topic, queue_id, min_offset, max(next_offset, coalesce("
        "(SELECT queue_offset + 1 FROM messages WHERE queue_key = key ORDER BY queue_offset DESC LIMIT 1), 0)"
        "), CASE next_offset WHEN min_offset THEN min_offset ELSE 0 END, emptied_at FROM queues"
        " ORDER BY topic, queue_id"
    )
    return [Queue(*row) for row in rows]
