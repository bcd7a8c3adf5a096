"""Reads the records of a store, and decodes them into messages."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from mocketmq.message.message import Draft, StoredMessage
from mocketmq.schedule.scheme import TopicLookup
from mocketmq.store.queue import Queue
from mocketmq.store.writer import MAX_BATCH_BYTES
from mocketmq_compat.delay.delayed_file import DamagedFileError, Entry, decode
from mocketmq_compat.delay.parked_message import check_deliverable, draft_in
from mocketmq_compat.delay.store import DelayStore

MISSING: Final = "missing"

Contents = Mapping[Entry, bytes | DamagedFileError]
"""Contents of records; an unreadable record has its error."""


class RecordReader:
    """Reads and decodes records.

    ``kept`` is :meth:`TimedScheme.kept`. ``run`` runs a function in a thread, and turns its OSError into a
    StoreError.
    """

    def __init__(
        self,
        store: DelayStore,
        topics: TopicLookup,
        kept: Callable[[Draft, Queue, int, int, int, str], StoredMessage],
        run: Callable[[Callable[[], Contents]], Awaitable[Contents]],
    ) -> None:
        self._store = store
        self._topics = topics
        self._kept = kept
        self._run = run

    async def contents(self, entries: Sequence[Entry]) -> Contents:
        """Read as many contents as fit into a batch, at least one."""

        def read() -> Contents:
            found: dict[Entry, bytes | DamagedFileError] = {}
            size = 0
            for entry in entries:
                try:
                    content = self._store.read(entry)
                except FileNotFoundError:
                    found[entry] = DamagedFileError(MISSING, "there is no such record")
                    continue
                except DamagedFileError as error:
                    found[entry] = error
                    continue
                found[entry] = content
                size += len(content)
                if size > MAX_BATCH_BYTES:
                    break
            return found

        return await self._run(read)

    async def message(self, entry: Entry, content: bytes | DamagedFileError) -> StoredMessage:
        """Decode a record. Raises DamagedFileError if it cannot be delivered, or belongs to another entry."""
        if isinstance(content, DamagedFileError):
            raise content
        file = decode(content)
        header = file.header
        if header.entry != entry:
            raise DamagedFileError("name", f"its header is that of record {header.entry.name}")
        properties = check_deliverable(file)
        topic = await self._topics.ensure(header.topic, header.queue_id + 1)
        queue = topic.queues[header.queue_id % len(topic.queues)]
        draft = draft_in(file, properties)
        return self._kept(draft, queue, entry.due_us, header.number, header.stored_us, header.store_host)
