"""Reset: empty the broker, or one topic, between two tests.

Topics, groups and the clock stay. Offsets go on where they are instead of beginning at 0 again, so that a
client that is still connected neither reads nor commits an offset that means another message now.
"""

from collections.abc import Sequence
from functools import partial

from emulator.broker.groups import Groups
from emulator.broker.topics import Topics
from emulator.message import half_topic
from emulator.schedule.level_queues import LevelQueues
from emulator.schedule.scheme import TimedScheme
from emulator.schedule.timer import Timer
from emulator.store.counters import SAVE_NEXT_COMMIT_OFFSET
from emulator.store.database import Database
from emulator.store.queues import Queue
from emulator.store.writer import Batch, Writer

_ALL = ("messages", "interventions", "deliveries", "takes", "progress", "message_keys")
_EMPTIED = "UPDATE queues SET min_offset = ?, next_offset = ? WHERE key = ?"
_BEARS = "instr(char(2) || properties, char(2) || 'RETRY_TOPIC' || char(1) || ? || char(2)) > 0"
_PENDING_OF = f"""
SELECT m.queue_key, m.queue_offset, m.commit_offset FROM messages m JOIN queues q ON q.key = m.real_queue_key
WHERE m.due_us IS NOT NULL AND (q.topic = ? OR {_BEARS})"""
_AGAIN_OF = f"""
SELECT commit_offset FROM queues JOIN messages ON queue_key = key
WHERE (substr(topic, 1, 7) = '%RETRY%' OR substr(topic, 1, 5) = '%DLQ%') AND {_BEARS}"""


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
        timed: TimedScheme,
    ) -> None:
        self._database = database
        self._writer = writer
        self._timer = timer
        self._topics = topics
        self._groups = groups
        self._levels = levels
        self._timed = timed

    async def all(self) -> None:
        """Forget every message, everything pending, the ledger, and what groups have consumed."""

        def work(batch: Batch) -> None:
            queues = [queue for topic in self._topics for queue in topic.queues]
            for table in _ALL:
                batch.execute(f"DELETE FROM {table}")
            batch.execute(SAVE_NEXT_COMMIT_OFFSET, (batch.next_commit_offset,))
            self._levels.emptied(batch)
            self._timed.clear(batch)
            self._empty(batch, queues)

        async with self._timer.lock:
            await self._writer.commit(work, alone=True)
            self._timer.changed()

    async def topic(self, name: str) -> None:
        """Forget the topic's messages, their retries and dead letters, and cancel what is pending for it.

        Half messages are forgotten, too. Its rows of the ledger stay. Raises TopicNotFoundError.
        """
        half = self._topics.find(half_topic(name))
        queues = [*self._topics.get(name).queues, *(half.queues if half else ())]
        async with self._timer.lock:
            await self._timed.cancel_all(await self._timed.page(-1, self._timed.pending, topic=name))
            parked: dict[int, list[tuple[int, int]]] = {}
            for row in await self._database.rows(_PENDING_OF, (name, name)):
                parked.setdefault(row[0], []).append((row[1], row[2]))
            again = [row[0] for row in await self._database.rows(_AGAIN_OF, (name,))]

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
                for commit_offset in again:
                    for table in ("takes", "messages"):
                        batch.execute(f"DELETE FROM {table} WHERE commit_offset = ?", (commit_offset,))
                batch.execute(SAVE_NEXT_COMMIT_OFFSET, (batch.next_commit_offset,))
                self._empty(batch, queues)
                batch.on_commit(partial(self._forget, again))

            await self._writer.commit(work, alone=True)

    def _forget(self, commit_offsets: Sequence[int]) -> None:
        for group in self._groups:
            for commit_offset in commit_offsets:
                take = group.takes.get(commit_offset)
                if take is not None:
                    group.close(take)

    def _empty(self, batch: Batch, queues: list[Queue]) -> None:
        for queue in queues:
            batch.execute(_EMPTIED, (queue.next_offset, queue.next_offset, queue.key))

        def apply() -> None:
            for queue in queues:
                queue.min_offset = queue.first_offset = queue.next_offset
            for group in self._groups:
                group.forget(queues)

        batch.on_commit(apply)
