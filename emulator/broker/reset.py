"""Reset: empty the broker, or one topic, between two tests.

Topics, groups and the clock stay. Offsets go on where they are instead of beginning at 0 again, so that a
client that is still connected neither reads nor commits an offset that means another message now.
"""

from emulator.broker.groups import Groups
from emulator.broker.topics import Topics
from emulator.schedule.level_queues import LevelQueues
from emulator.schedule.timer import Timer
from emulator.store.counters import SAVE_NEXT_COMMIT_OFFSET
from emulator.store.database import Database
from emulator.store.queues import Queue
from emulator.store.writer import Batch, Writer

_ALL = ("messages", "interventions", "deliveries", "takes", "progress", "message_keys")
_EMPTIED = "UPDATE queues SET min_offset = ?, next_offset = ? WHERE key = ?"
_PENDING_OF = """
SELECT queue_key, queue_offset, commit_offset FROM messages
WHERE due_us IS NOT NULL AND real_queue_key = ?"""


class Reset:
    """Empties what it is told to, durably, in one transaction."""

    def __init__(
        self,
        database: Database,
        writer: Writer,
        timer: Timer,
        topics: Topics,
        groups: Groups,
        levels: LevelQueues,
    ) -> None:
        self._database = database
        self._writer = writer
        self._timer = timer
        self._topics = topics
        self._groups = groups
        self._levels = levels

    async def all(self) -> None:
        """Forget every message, everything pending, the ledger, and what groups have consumed."""
        queues = [queue for topic in self._topics for queue in topic.queues]

        def work(batch: Batch) -> None:
            for table in _ALL:
                batch.execute(f"DELETE FROM {table}")
            batch.execute(SAVE_NEXT_COMMIT_OFFSET, (batch.next_commit_offset,))
            self._levels.emptied(batch)
            self._empty(batch, queues)

        async with self._timer.lock:
            await self._writer.commit(work, alone=True)
            self._timer.changed()

    async def topic(self, name: str) -> None:
        """Forget the topic's messages, and cancel what is pending for it. Raises TopicNotFoundError."""
        queues = self._topics.get(name).queues
        async with self._timer.lock:
            parked: dict[int, list[tuple[int, int]]] = {}
            for queue in queues:
                for queue_key, *where in await self._database.rows(_PENDING_OF, (queue.key,)):
                    parked.setdefault(queue_key, []).append((where[0], where[1]))

            def work(batch: Batch) -> None:
                for level in self._levels.levels:
                    waiting = [
                        entry
                        for entry in parked.get(level.queue.key, ())
                        if entry[0] >= level.next_offset and entry[0] not in level.settled
                    ]
                    self._levels.cancel_all(batch, level, waiting)
                for queue in queues:
                    for table in ("takes", "messages"):
                        batch.execute(f"DELETE FROM {table} WHERE queue_key = ?", (queue.key,))
                batch.execute(SAVE_NEXT_COMMIT_OFFSET, (batch.next_commit_offset,))
                self._empty(batch, queues)

            await self._writer.commit(work, alone=True)

    def _empty(self, batch: Batch, queues: list[Queue]) -> None:
        for queue in queues:
            batch.execute(_EMPTIED, (queue.next_offset, queue.next_offset, queue.key))

        def apply() -> None:
            for queue in queues:
                queue.min_offset = queue.next_offset
            for group in self._groups:
                group.forget(queues)

        batch.on_commit(apply)
