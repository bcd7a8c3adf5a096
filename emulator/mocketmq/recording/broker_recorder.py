"""Records what clients send to a running broker, in the file of ``--record``.

A message is recorded once it is durable, as it was sent: with its delay, and of a transaction once it is
committed. Lines are written five times a second, without a sync; after a kill, the last ones may be missing.
"""

import asyncio
import logging
from pathlib import Path
from typing import Final

from mocketmq.broker.registry.topics import Topics
from mocketmq.broker.sending.intake import AcceptedMessage
from mocketmq.clock import US_PER_MS, whole_ms_us
from mocketmq.message.message import StoredMessage
from mocketmq.message.properties import decode_properties
from mocketmq.recording.masks import Masks
from mocketmq.recording.recorded_message import AskedDelay, Sending, recorded
from mocketmq.recording.recording import (
    VERSION,
    RecordedMessage,
    RecordingError,
    RecordingHeader,
    RecordingWriter,
)
from mocketmq.store.queue import LiteQueue

log = logging.getLogger(__name__)

_PERIOD_S: Final = 0.2
_MOST_WAITING: Final = 4_096
_MOST_WAITING_BYTES: Final = 8 << 20
_SYSTEM: Final = "%"
"""Begins the names of retry topics and dead-letter topics."""


class BrokerRecorder:
    """Records into a new file, or continues that of an earlier run. Raises RecordingError."""

    def __init__(self, path: Path, topics: Topics) -> None:
        header = RecordingHeader(recording=VERSION, source="mocketmq", queues={})
        begin = RecordingWriter.reopen if path.exists() else RecordingWriter
        self._writer = begin(path, header)
        self._topics = topics
        self._masks = Masks((), b"")
        self._waiting: list[RecordedMessage] = []
        self._bytes = 0
        self._has_failed = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write in the background."""
        self._task = asyncio.create_task(self._write_on())

    def note(self, accepted: AcceptedMessage, stored: StoredMessage) -> None:
        """Record a message that a client sent, unless it is a retry, or for a lite topic."""
        topic = accepted.queue.topic
        if self._has_failed or topic.startswith(_SYSTEM) or isinstance(accepted.queue, LiteQueue):
            return
        claim = accepted.claim
        due_ms = None if claim is None else whole_ms_us(claim.due_us) // US_PER_MS
        known = self._topics.find_topic(topic)
        self._waiting.append(
            recorded(
                Sending(
                    stored.store_us // US_PER_MS,
                    stored.born_us // US_PER_MS,
                    topic,
                    accepted.queue.queue_id,
                    stored.flag,
                    stored.sys_flag,
                    known.writable_count if known else None,
                ),
                accepted.draft.body,
                decode_properties(accepted.draft.properties),
                AskedDelay(level=accepted.level, due_ms=due_ms),
                self._masks,
            )
        )
        self._bytes += len(accepted.draft.body)
        if len(self._waiting) > _MOST_WAITING or self._bytes > _MOST_WAITING_BYTES:
            self._write()

    async def close(self) -> None:
        """Write all that was recorded to the disk."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._write()
        try:
            self._writer.close()
        except RecordingError as error:
            self._fail(error)

    async def _write_on(self) -> None:
        while True:
            await asyncio.sleep(_PERIOD_S)
            self._write()

    def _write(self) -> None:
        messages, self._waiting, self._bytes = self._waiting, [], 0
        if messages and not self._has_failed:
            try:
                self._writer.write(messages)
            except RecordingError as error:
                self._fail(error)

    def _fail(self, error: RecordingError) -> None:
        """Log the error. The broker continues without a recording."""
        if not self._has_failed:
            self._has_failed = True
            log.error("the recording ends: %s", error)
