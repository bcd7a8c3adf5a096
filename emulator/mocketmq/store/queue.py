"""A queue of a topic or of a lite topic: the range of offsets that it holds."""

from mocketmq.store.database import Database


class Queue:
    """A queue as of the last commit: messages ``min_offset`` to ``next_offset - 1``.

    ``first_offset`` is the offset at which the queue began, or at which a reset emptied it. ``emptied_at`` is
    the log offset that was next when the topic was last reset or deleted. Records below it no longer count,
    including those of delayed messages. ``is_gone`` is set if a restored snapshot does not have the queue.
    No body is larger than ``largest_body`` bytes, which is None if not known, as after a start.
    """

    __slots__ = (
        "emptied_at",
        "first_offset",
        "is_gone",
        "key",
        "largest_body",
        "min_offset",
        "next_offset",
        "queue_id",
        "topic",
    )

    def __init__(
        self,
        key: int,
        topic: str,
        queue_id: int,
        min_offset: int = 0,
        next_offset: int = 0,
        first_offset: int = 0,
        emptied_at: int = 0,
        *,
        largest_body: int | None = None,
    ) -> None:
        self.key = key
        self.topic = topic
        self.queue_id = queue_id
        self.min_offset = min_offset
        self.next_offset = next_offset
        self.first_offset = first_offset
        self.emptied_at = emptied_at
        self.largest_body = largest_body
        self.is_gone = False

    def become(self, other: "Queue") -> None:
        """Take over the key and the offsets that this queue has in a restored store."""
        self.key, self.min_offset, self.next_offset = other.key, other.min_offset, other.next_offset
        self.first_offset, self.emptied_at = other.first_offset, other.emptied_at
        self.largest_body = None

    def grow(self, next_offset: int, largest_body: int) -> None:
        """Extend the queue to ``next_offset``; no body of the new messages is larger than given, in bytes."""
        self.next_offset = next_offset
        if self.largest_body is not None and largest_body > self.largest_body:
            self.largest_body = largest_body

    @property
    def lite_topic(self) -> str | None:
        """The name of the lite topic; None for a queue of the topic itself."""
        return None

    @property
    def is_young(self) -> bool:
        """Whether no message has been removed from the queue since it began."""
        return self.min_offset <= self.first_offset

    @property
    def place(self) -> tuple[str, int]:
        return self.topic, self.queue_id

    def __repr__(self) -> str:
        return f"<{self.topic}:{self.queue_id} [{self.min_offset}, {self.next_offset})>"


class LiteQueue(Queue):
    """The only queue of a lite topic; ``topic`` is its parent topic.

    A lite topic consists only of this object and its row in the table ``queues``. ``last_us`` is the store
    time of its newest message; 0 if retention has removed the message. ``is_saved`` says whether the row is
    or was in the table, or in a transaction being written.
    """

    __slots__ = ("is_saved", "last_us", "name")

    def __init__(self, key: int, topic: str, name: str, last_us: int = 0) -> None:
        super().__init__(key, topic, -key)  # no client names such a queue id
        self.name = name
        self.last_us = last_us
        self.is_saved = False

    @property
    def lite_topic(self) -> str:
        return self.name


_QUEUES = """
SELECT key, topic, queue_id, min_offset, max(next_offset, coalesce(newest.queue_offset + 1, 0)),
 CASE next_offset WHEN min_offset THEN min_offset ELSE 0 END, emptied_at, lite_topic, coalesce(store_us, 0)
FROM queues LEFT JOIN messages newest ON queue_key = key AND newest.queue_offset =
 (SELECT queue_offset FROM messages WHERE queue_key = key ORDER BY queue_offset DESC LIMIT 1)
ORDER BY topic, queue_id"""


async def load_queues(database: Database) -> list[Queue]:
    """Load every queue. A queue's next offset follows from its newest message.

    In a queue emptied by retention or a reset, it comes from the stored lower bound instead.
    """
    queues: list[Queue] = []
    for key, topic, queue_id, *offsets, name, last_us in await database.rows(_QUEUES):
        if name is None:
            queues.append(Queue(key, topic, queue_id, *offsets))
            continue
        lite = LiteQueue(key, topic, name, last_us)
        lite.min_offset, lite.next_offset, lite.first_offset, _ = offsets
        lite.is_saved = True
        queues.append(lite)
    return queues
