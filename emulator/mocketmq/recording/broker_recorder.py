"""Records what clients send to a running broker, in the file of ``--record``.

A message is recorded as it was sent, with its delay, once it is durable; a message of a transaction, once it
is committed. A thread makes and writes the lines five times a second, without a sync, so the last lines may
be missing after a kill.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from mocketmq.broker.registry.topics import Topics
from mocketmq.broker.sending.intake import AcceptedMessage
from mocketmq.clock import US_PER_MS, whole_ms_us
from mocketmq.message.message import StoredMessage
from mocketmq.message.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from mocketmq.message.properties import decode_properties
from mocketmq.recording.masks import Masks
from mocketmq.recording.recorded_message import AskedDelay, Sending, recorded
from mocketmq.recording.recording import (
    VERSION,
    RecordingHeader,
    RecordingWriter,
)
from mocketmq.recording.writer_thread import WriterThread
from mocketmq.store.queue import LiteQueue

_MOST_WAITING: Final = 4_096
_MOST_WAITING_BYTES: Final = 8 << 20
_GROUPS: Final = (RETRY_PREFIX, DLQ_PREFIX)


class _Sent(NamedTuple):
    """A message to be written."""

    sending: Sending
    body: bytes
    properties: str
    asked: AskedDelay


class BrokerRecorder:
    """Records into a new file, or continues the file of an earlier run. Raises RecordingError.

    Compressed bodies stay as clients sent them. If the disk is slower than the clients, the broker waits for
    it, so that memory holds at most 2 × 8 MiB and the last message.
    """

    def __init__(self, path: Path, topics: Topics, masks: Masks) -> None:
        header = RecordingHeader(recording=VERSION, source="mocketmq", queues={}, masks=masks.texts)
        begin = RecordingWriter.reopen if path.exists() else RecordingWriter.create
        self._writer = begin(path, header)
        self._masks = masks
        self._topics = topics
        self._waiting: list[_Sent] = []
        self._bytes = 0
        self._thread = WriterThread("recording", "the recording", self._writer, self._write)

    def start(self) -> None:
        """Begin to write in the background."""
        self._thread.start()

    def note(self, accepted: AcceptedMessage, stored: StoredMessage) -> None:
        """Record a message from a client, but not a retry, or a message for a lite or system topic."""
        topic = accepted.queue.topic
        if (
            self._thread.has_ended
            or is_system_topic(topic)
            or topic.startswith(_GROUPS)
            or isinstance(accepted.queue, LiteQueue)
        ):
            return
        claim = accepted.claim
        due_ms = None if claim is None else whole_ms_us(claim.due_us) // US_PER_MS
        known = self._topics.find_topic(topic)
        sending = Sending(
            stored.store_us // US_PER_MS,
            stored.born_us // US_PER_MS,
            topic,
            accepted.queue.queue_id,
            stored.flag,
            stored.sys_flag,
            known.writable_count if known else None,
        )
        draft = accepted.draft
        self._waiting.append(
            _Sent(sending, draft.body, draft.properties, AskedDelay(level=accepted.level, due_ms=due_ms))
        )
        self._bytes += len(draft.body) + len(draft.properties)
        if len(self._waiting) >= _MOST_WAITING or self._bytes >= _MOST_WAITING_BYTES:
            self._thread.wait()
            self._write()

    async def close(self) -> None:
        """Write all recorded messages to the disk."""
        await self._thread.close()

    def _write(self) -> None:
        """Let the thread write the waiting messages after those that it is already writing."""
        if self._waiting:
            self._thread.put(partial(self._append, self._waiting))
            self._waiting, self._bytes = [], 0

    # In the thread

    def _append(self, messages: Sequence[_Sent]) -> None:
        if self._thread.has_ended:
            return
        try:
            self._writer.write(
                recorded(
                    each.sending,
                    each.body,
                    decode_properties(each.properties),
                    each.asked,
                    self._masks,
                    limit=0,
                )
                for each in messages
            )
        except Exception as error:  # noqa: BLE001 - a recording must not harm the broker
            self._thread.fail(error)
