"""Indexes messages by their unique key and by their ``KEYS``.

Keys are random, and updating a random index with every send would cost most of the writer's throughput. Like
RocketMQ's IndexService, this index is therefore updated later: while the writer is idle, and before each
look-up. A look-up finds every message stored before it.
"""

import asyncio
import hashlib
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from itertools import accumulate

from mocketmq.message.message import StoredMessage
from mocketmq.message.properties import KEYS, decode_properties
from mocketmq.store.batch import Batch
from mocketmq.store.chore import Chore
from mocketmq.store.messages import NO_LIMIT, fitting_messages_at, messages_at
from mocketmq.store.store import Store

BUSY = 20
"""Number of other commits since the last turn from which the writer counts as busy."""
STEP = 1_000
"""Maximum number of messages indexed per transaction."""
MAX_FOUND = 1_000

UNINDEX = "DELETE FROM message_keys WHERE key_hash = ? AND log_offset = ?"
_INDEX = "INSERT OR IGNORE INTO message_keys VALUES (?, ?)"
_INDEXED_TO = (
    "INSERT INTO counters VALUES ('keys_indexed_to', ?)"
    " ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)"
)
_LOOK_UP = (
    "SELECT k.log_offset, m.queue_key, m.store_us"
    " FROM message_keys k JOIN messages m ON m.log_offset = k.log_offset"
    " WHERE k.key_hash = ? AND k.log_offset {} ? ORDER BY k.log_offset {} LIMIT ?"
)
_OLDEST, _NEWEST = _LOOK_UP.format(">", "ASC"), _LOOK_UP.format("<", "DESC")
_RECORDS_OF = (
    "SELECT m.log_offset, length(m.body) FROM message_keys k JOIN messages m ON m.log_offset = k.log_offset"
    " WHERE k.key_hash = ? AND m.unique_key = ? ORDER BY k.log_offset DESC LIMIT ?"
)
_FOLLOW = (
    "SELECT log_offset, unique_key, properties FROM messages WHERE log_offset >= ?"
    " ORDER BY log_offset LIMIT ?"
)


class MessageKeys(Chore):
    """The index of all messages below the log offset ``indexed_to``."""

    name = "the index by key"
    interval_s = 1.0

    def __init__(self, store: Store, indexed_to: int) -> None:
        super().__init__()
        self.indexed_to = indexed_to
        self.step = STEP
        self._database = store.database
        self._writer = store.writer
        self._commits = 0
        self._following = asyncio.Lock()  # two runs would index the same messages twice

    def pausing(self) -> AbstractAsyncContextManager[None]:
        """Pause the indexing inside the context."""
        return self._following

    async def turn(self) -> None:
        """Index the remaining messages, unless the writer is busy."""
        while self._writer.commits - self._commits < BUSY and self.is_behind and not self.is_closing:
            await self.follow()
            self._commits += 1
        self._commits = self._writer.commits

    @property
    def is_behind(self) -> bool:
        """Whether some stored messages are not indexed yet."""
        return self.indexed_to < self._writer.next_log_offset

    async def follow(self) -> None:
        """Index the next messages, at most ``step``."""
        async with self._following:
            if self.is_behind:
                await self._follow()

    async def _follow(self) -> None:
        known_end = self._writer.next_log_offset
        rows = await self._database.rows(_FOLLOW, (self.indexed_to, self.step))
        end = rows[-1][0] + 1 if len(rows) == self.step else max(known_end, rows[-1][0] + 1 if rows else 0)
        entries = [
            (key, log_offset)
            for log_offset, unique_key, properties in rows
            for key in keys_of(unique_key, properties)
        ]

        def work(batch: Batch) -> None:
            for entry in entries:
                batch.execute(_INDEX, entry)
            batch.execute(_INDEXED_TO, (end,))

        await self._writer.commit(work, until="visible")
        self.indexed_to = max(self.indexed_to, end)

    async def with_unique_key(
        self, unique_key: str, max_bytes: int = NO_LIMIT, *, or_newest: bool = True
    ) -> tuple[list[StoredMessage], int]:
        """The newest records of the message, oldest first, and the number of older records left out.

        The bodies have up to ``max_bytes`` in total; with ``or_newest`` the newest may be larger. Records
        beyond the newest ``MAX_FOUND`` are counted as one.
        """
        await self.catch_up()
        rows = await self._database.rows(_RECORDS_OF, (index_hash(unique_key), unique_key, MAX_FOUND + 1))
        sizes = accumulate(size for _, size in rows[:MAX_FOUND])
        count = sum(size <= max_bytes or (at == 0 and or_newest) for at, size in enumerate(sizes))
        found = await messages_at(self._database, [log_offset for log_offset, _ in rows[:count]])
        return sorted(found.values(), key=lambda record: record.log_offset), len(rows) - count

    async def with_key(
        self, key: str, limit: int, queue_keys: Collection[int] | None = None, max_bytes: int = NO_LIMIT
    ) -> list[StoredMessage]:
        """Messages with the key among their ``KEYS``, oldest first, in all queues or only ``queue_keys``.

        The bodies have up to ``max_bytes`` in total, unless the first alone is larger.
        """

        def is_here(queue_key: int, _: int) -> bool:
            return queue_keys is None or queue_key in queue_keys

        def bears(record: StoredMessage) -> bool:
            return key in _keys_in(record.properties)

        return await self._find(key, is_here, bears, limit, max_bytes)

    async def newest(
        self, key: str, limit: int, is_wanted: Callable[[int, int], bool], max_bytes: int = NO_LIMIT
    ) -> list[StoredMessage]:
        """The newest messages with this unique key, or with the key among their ``KEYS``, oldest first.

        ``is_wanted`` gets the queue key and the store time of each. The bodies have up to ``max_bytes`` in
        total, unless the newest alone is larger.
        """

        def bears(record: StoredMessage) -> bool:
            return key == record.unique_key or key in _keys_in(record.properties)

        found = await self._find(key, is_wanted, bears, limit, max_bytes, newest_first=True)
        return found[::-1]

    async def catch_up(self) -> None:
        """Index every message stored so far."""
        end = self._writer.next_log_offset
        while self.is_behind and self.indexed_to < end:  # a restored snapshot may end earlier
            await self.follow()

    async def _find(
        self,
        key: str,
        is_wanted: Callable[[int, int], bool],
        bears: Callable[[StoredMessage], bool],
        limit: int,
        max_bytes: int = NO_LIMIT,
        *,
        newest_first: bool = False,
    ) -> list[StoredMessage]:
        """Find the wanted messages with the key itself, not only its hash. Others are not read in full."""
        await self.catch_up()
        look_up, place = (_NEWEST, self.indexed_to) if newest_first else (_OLDEST, -1)
        found: list[StoredMessage] = []
        room = max_bytes
        while True:
            rows = await self._database.rows(look_up, (index_hash(key), place, self.step))
            waiting = [log_offset for log_offset, *facts in rows if is_wanted(*facts)]
            while waiting and len(found) < limit:
                some, count = await fitting_messages_at(
                    self._database, waiting[: limit - len(found)], room, or_first=not found
                )
                if not count:
                    return found
                borne = [some[each] for each in waiting[:count] if each in some and bears(some[each])]
                waiting = waiting[count:]
                found += borne
                room = max(room - sum(len(one.body) for one in borne), 0)
            if len(found) >= limit or len(rows) < self.step:
                return found
            place = rows[-1][0]


def keys_of(unique_key: str, properties: str) -> set[int]:
    """The hashes under which a message is indexed."""
    return {index_hash(key) for key in (unique_key, *_keys_in(properties))}


def _keys_in(properties: str) -> list[str]:
    return decode_properties(properties).get(KEYS, "").split()


def index_hash(key: str) -> int:
    """Hash the key to 64 bits, signed because SQLite's integers are."""
    return int.from_bytes(hashlib.blake2b(key.encode(errors="replace"), digest_size=8).digest(), signed=True)
