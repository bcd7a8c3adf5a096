"""Access to the messages and offsets of a queue of the delay topic or the pending topic."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import Final, NamedTuple

from mocketmq.calling.call import ClusterError
from mocketmq.calling.connection import Answer
from mocketmq.calling.headers import pull_ext
from mocketmq.relay.rocketmq.brokers import RemoteBroker
from mocketmq.relay.rocketmq.messages import MessageContent
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.record import WireRecord, decode_records

_PULLED: Final = 32
"""Maximum number of messages that a broker returns for a pull (MessageStoreConfig.java)."""
_AHEAD: Final = 8
"""Number of concurrent pulls while reading many messages."""
_NO_NEW: Final = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)


class RemoteQueue(NamedTuple):
    """A queue on a broker. Methods raise ClusterError."""

    broker: RemoteBroker
    group: str
    topic: str
    queue_id: int

    @property
    def name(self) -> str:
        """A name for logs."""
        return f"{self.topic}-{self.broker.name}-{self.queue_id}"

    async def append(self, message: MessageContent) -> int:
        """Send a message and return its offset. Also raises UnfitMessageError."""
        return await self.broker.send(self.group, self.topic, self.queue_id, message)

    async def append_all(self, messages: Sequence[MessageContent]) -> int:
        """Send a small batch of messages and return the offset of the first message."""
        return await self.broker.send_batch(self.group, self.topic, self.queue_id, messages)

    async def pull(self, offset: int, suspend_ms: int = 0) -> tuple[list[WireRecord], int]:
        """Return the next messages and the offset after them. Waits up to ``suspend_ms`` for messages."""
        ext = pull_ext(self.topic, self.group, self.queue_id, offset, suspend_ms)
        answer = await self.broker.pulls.call(RequestCode.PULL_MESSAGE, ext, wait_s=suspend_ms / 1_000)
        if answer.code == ResponseCode.SUCCESS:
            return decode_records(answer.body), int(answer.ext["nextBeginOffset"])
        if answer.code in (*_NO_NEW, ResponseCode.PULL_OFFSET_MOVED):
            return [], int(answer.ext["nextBeginOffset"])
        raise ClusterError(f"{self.name} cannot be read: {answer.reason}")

    async def read(self, start: int, end: int) -> AsyncGenerator[list[WireRecord], None]:
        """Return all messages from ``start`` up to but excluding ``end``, in order."""
        ahead: deque[asyncio.Task[list[WireRecord]]] = deque()
        try:
            while start < end or ahead:
                while start < end and len(ahead) < _AHEAD:
                    stop = min(start + _PULLED, end)
                    ahead.append(asyncio.create_task(self._read(start, stop)))
                    start = stop
                yield await ahead.popleft()
        finally:
            for task in ahead:
                task.cancel()
            await asyncio.gather(*ahead, return_exceptions=True)

    async def _read(self, start: int, end: int) -> list[WireRecord]:
        found: list[WireRecord] = []
        while start < end:
            records, then = await self.pull(start)
            if then <= start:
                raise ClusterError(f"{self.name} ends at {start}, before {end}")
            found += (record for record in records if record.queue_offset < end)
            start = then
        return found

    async def oldest(self) -> int:
        return await self._offset(RequestCode.GET_MIN_OFFSET)

    async def end(self) -> int:
        """Return the offset for the next message."""
        return await self._offset(RequestCode.GET_MAX_OFFSET)

    async def offset_at(self, instant_ms: int) -> int:
        """Return the offset of a message stored near this instant, or the end if all are older."""
        return await self._offset(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=str(instant_ms))

    async def committed(self) -> int:
        """Return the group's committed offset; without one, the offset of the oldest message."""
        fields = {"consumerGroup": self.group, "topic": self.topic, "queueId": str(self.queue_id)}
        answer = await self.broker.requests.call(RequestCode.QUERY_CONSUMER_OFFSET, fields)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return await self.oldest()
        return int(self._done(answer, "did not report the group's offset").ext["offset"])

    async def commit(self, offset: int) -> None:
        ext = {"consumerGroup": self.group, "topic": self.topic, "queueId": str(self.queue_id)}
        answer = await self.broker.requests.call(
            RequestCode.UPDATE_CONSUMER_OFFSET, ext | {"commitOffset": str(offset)}
        )
        self._done(answer, "did not accept the group's offset")

    async def _offset(self, code: RequestCode, **more: str) -> int:
        ext = {"topic": self.topic, "queueId": str(self.queue_id), **more}
        answer = await self.broker.requests.call(code, ext)
        return int(self._done(answer, "did not report its offsets").ext["offset"])

    def _done(self, answer: Answer, failed: str) -> Answer:
        if answer.code != ResponseCode.SUCCESS:
            raise ClusterError(f"{self.name} {failed}: {answer.reason}")
        return answer
