"""Reads a queue of a real broker without leaving a trace, and merges queues by time.

A pull does more than read: a broker creates a group that it does not know (SubscriptionGroupManager), and
5.5.0 saves the offset of every pull beside the committed offsets (pullOffsetTable). So this module uses the
requests of administration tools: QUERY_CONSUME_QUEUE returns the positions of a queue's messages in the
broker's log, and VIEW_MESSAGE_BY_ID returns the message at a position. Neither request has a group.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import Final, NamedTuple

from mocketmq.calling.call import ClusterError
from mocketmq.calling.name_servers import object_in
from mocketmq.relay.rocketmq.queue import RemoteQueue
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.record import WireRecord, decode_records

_ENTRIES: Final = 32
"""Number of positions in a request."""
_TOGETHER_BYTES: Final = 1 << 20
"""Maximum size of messages that are requested together, unless the first alone is larger."""

Pace = Callable[[], Awaitable[None]]
"""Waits until one more message may be read."""


class QueueReader:
    """The messages of a queue from an offset on. Reads ahead up to 32 messages, together at most 1 MiB.

    ``lost`` counts messages that the broker deleted before they were read.
    """

    def __init__(self, queue: RemoteQueue, next_offset: int) -> None:
        self.queue = queue
        self.next_offset = next_offset
        self.goal = self.end = next_offset
        self.lost = 0
        self._ahead: deque[WireRecord] = deque()

    @property
    def left(self) -> int:
        """Number of messages up to ``goal`` that were not read."""
        return max(self.goal - self.next_offset, 0)

    async def look(self) -> None:
        """Set ``goal`` and the known end to the current end of the queue. Raises ClusterError."""
        self.goal = self.end = await self.queue.end()

    async def look_again(self) -> None:
        """Set the known end to the current end of the queue. Raises ClusterError."""
        self.end = await self.queue.end()

    async def head(self, pace: Pace) -> WireRecord | None:
        """Return the next message without consuming it; None at the known end. Raises ClusterError."""
        while not self._ahead and self.next_offset < self.end:
            positions = await self._positions()
            self._ahead.extend(await asyncio.gather(*(self._view(position, pace) for position in positions)))
            if not positions:
                oldest = await self.queue.oldest()
                if oldest <= self.next_offset:
                    raise ClusterError(f"{self.queue.name} ends at {self.next_offset}, before {self.end}")
                self.lost += min(oldest, self.end) - self.next_offset
                self.next_offset = oldest
        return self._ahead[0] if self._ahead else None

    async def _positions(self) -> list[int]:
        """Return the positions of the next messages in the broker's log; none if they are deleted."""
        queue = self.queue
        answer = await queue.broker.requests.call(
            RequestCode.QUERY_CONSUME_QUEUE,
            {
                "topic": queue.topic,
                "queueId": str(queue.queue_id),
                "index": str(self.next_offset),
                "count": str(min(_ENTRIES, self.end - self.next_offset)),
            },
        )
        entries = object_in(answer, f"{queue.name} cannot be read") if answer.body else {}
        positions: list[int] = []
        size = 0
        for entry in entries.get("queueData") or ():
            size += int(entry["physicSize"])
            if positions and (size > _TOGETHER_BYTES or len(positions) == _ENTRIES):
                break
            positions.append(int(entry["physicOffset"]))
        if not entries and answer.code != ResponseCode.SUCCESS:
            raise ClusterError(f"{queue.name} cannot be read: {answer.reason}")
        return positions

    async def _view(self, position: int, pace: Pace) -> WireRecord:
        queue = self.queue
        await pace()
        answer = await queue.broker.requests.call(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(position)})
        if answer.code != ResponseCode.SUCCESS:
            raise ClusterError(f"a message of {queue.name} cannot be read: {answer.reason}")
        [record] = decode_records(answer.body)
        return record

    def take(self) -> WireRecord:
        """Return the message of ``head``, and move to the next one."""
        record = self._ahead.popleft()
        self.next_offset = record.queue_offset + 1
        return record


class ReadMessage(NamedTuple):
    """A message, and the queue that it was read from."""

    source: QueueReader
    record: WireRecord


async def merged(queues: Iterable[QueueReader], pace: Pace) -> AsyncGenerator[ReadMessage, None]:
    """Read queues up to their goals, in order of store time, and of offset within each queue.

    All goals must be set before any end is read. Then every message that is older than a message below a goal
    is below the known end of its queue, so none is found after its place in the order has passed.
    """
    queues = list(queues)
    heads: list[tuple[int, int, QueueReader]] = []
    for index, queue in enumerate(queues):
        if (record := await queue.head(pace)) is not None:
            heads.append((record.store_ms, index, queue))
    heapq.heapify(heads)
    while heads and any(queue.left for queue in queues):
        at_ms, index, queue = heads[0]
        yield ReadMessage(queue, queue.take())
        if (record := await queue.head(pace)) is None:
            heapq.heappop(heads)
        else:  # keep the queue's order even where store times go back
            heapq.heapreplace(heads, (max(record.store_ms, at_ms), index, queue))
