"""A queue of a RocketMQ delay topic with its pending log, as a partition of the relay, at least once.

The relay appends arrivals to the log before it commits the group's offset, and sends due messages before it
settles them. After a crash in between, the relay repeats the step. The message keeps its id, so consumers can
drop duplicates.
"""

import asyncio
import logging
import zlib
from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from mocketmq.calling.call import ClusterError
from mocketmq.clock import US_PER_MS, US_PER_S, steady_us, wall_us
from mocketmq.errors import EmulatorError
from mocketmq.message.names import is_forbidden_topic
from mocketmq.relay.judging import RELAY_TOPIC, Judge, UnfitMessageError
from mocketmq.relay.partition import RelayedMessage, RelayError, RetryableError, Settled
from mocketmq.relay.rocketmq.membership import Hold, Locks
from mocketmq.relay.rocketmq.messages import MessageContent, arrived, id_of, pending_of, to_refuse, to_send
from mocketmq.relay.rocketmq.pending_log import PendingLog
from mocketmq.relay.rocketmq.queue import RemoteQueue
from mocketmq.relay.rocketmq.real_topics import SHARDING_KEY, RealTopics
from mocketmq.remoting.wire.record import WireRecord, decode_properties

log = logging.getLogger(__name__)

_COMPRESSED: Final = 1
_LARGEST_BODY: Final = 4 << 20
_SUSPEND_MS: Final = 5_000
_COMMIT_US: Final = 5 * US_PER_S
_CARRY_US: Final = 30 * US_PER_S
_LOCK_POLL_S: Final = 0.5
_MOST_SENDS: Final = 64
"""Maximum number of sends in flight."""
_UNREADABLE: Final = (LookupError, ValueError)
_Lane = tuple[str, str] | str
"""Messages that are sent one after the other: a real topic and sharding key, or a single message's id."""


@dataclass(eq=False, repr=False)
class RocketPartition:
    """Implements :class:`~mocketmq.relay.partition.Partition`."""

    delayed: RemoteQueue
    _log: PendingLog
    _refused: RemoteQueue
    _locks: Locks
    _topics: RealTopics
    _judge: Judge

    def __post_init__(self) -> None:
        self.name = self.delayed.name
        self.refused = 0
        self._hold = Hold(self.delayed)
        self.next_offset = 0
        self._judged: dict[str, RelayedMessage | UnfitMessageError | None] = {}  # None: refused already
        self._owed: list[RelayedMessage] = []  # sent, but not settled yet
        self._failed: dict[_Lane, tuple[int, int]] = {}  # due time and number of the first unsent message
        self._sends = asyncio.Semaphore(_MOST_SENDS)
        self._committed_us = self._carried_us = 0
        self._trouble = ""

    async def restore(self) -> AsyncGenerator[Sequence[RelayedMessage | Settled], None]:
        """Lock the queue and read the log."""
        with _errors_to_retry():
            hold = await self._locks.take(self.delayed)
            if hold is None:
                log.info("%s: waiting for its lock, which another relay holds", self.name)
        while hold is None:
            yield []
            await asyncio.sleep(_LOCK_POLL_S)
            with _errors_to_retry():
                hold = await self._locks.take(self.delayed)
        self._hold = hold
        self._owed.clear()
        self._failed.clear()
        self._judged.clear()
        self._committed_us = self._carried_us = steady_us()
        with _errors_to_retry():
            self.next_offset = await self.delayed.committed()
            async with aclosing(self._log.restore(self.next_offset)) as restored:
                async for some in restored:
                    yield some
        hold.check()

    async def arrivals(self) -> Sequence[WireRecord]:
        """Pull the next messages, after any maintenance that is due."""
        with _errors_to_retry():
            await self._tidy()
            records, then = await self.delayed.pull(self.next_offset, _SUSPEND_MS)
            if not records and then != self.next_offset:
                log.warning(
                    "%s continues at %s, not %s, as its broker reports",
                    self.name,
                    then,
                    self.next_offset,
                )
                self.next_offset = then
            return records

    async def keep(self, arrivals: Sequence[WireRecord]) -> Sequence[RelayedMessage]:
        """Append fit messages to the log, and send unfit messages to the refused topic."""
        with _errors_to_retry():
            names = [id_of(self.delayed.broker.name, record) for record in arrivals]
            new = {
                name: record
                for name, record in zip(names, arrivals, strict=True)
                if name not in self._log.known
            }
            await _all(self._judge_one(name, record) for name, record in new.items())
            self._hold.check()
            fit = [each for each in self._judged.values() if isinstance(each, RelayedMessage)]
            self._judged |= await self._log.keep([each for each in fit if not self._log.holds(each)])
            await _all(self._refuse_one(name, record) for name, record in new.items())
            self._hold.check()
            await self.delayed.commit(arrivals[-1].queue_offset + 1)
            self.next_offset = arrivals[-1].queue_offset + 1
        kept = [each for each in self._judged.values() if isinstance(each, RelayedMessage)]
        self._judged.clear()
        return kept

    async def _judge_one(self, message_id: str, record: WireRecord) -> None:
        if message_id in self._judged:
            return
        try:
            judged = self._judge.judge(
                decode_properties(record.properties),
                _plain_body(record),
                record.store_ms * US_PER_MS,
                wall_us(),
            )
            if is_forbidden_topic(judged.topic):
                raise UnfitMessageError(f"the real topic is {judged.topic}, to which clients cannot send")
            if await self._topics.is_unknown(judged.topic):
                raise UnfitMessageError(f"the real topic {judged.topic} does not exist")
            self._judged[message_id] = pending_of(message_id, arrived(record), judged)
        except UnfitMessageError as error:
            self._judged[message_id] = error

    async def _refuse_one(self, message_id: str, record: WireRecord) -> None:
        judged = self._judged[message_id]
        if isinstance(judged, UnfitMessageError):
            await self._refuse(message_id, arrived(record), judged)
            self._judged[message_id] = None

    async def _refuse(self, message_id: str, message: MessageContent, error: UnfitMessageError) -> None:
        try:
            await self._refused.append(to_refuse(message_id, message, str(error)))
        except UnfitMessageError:  # the reason has made the message too large
            await self._refused.append(
                to_refuse(message_id, MessageContent({}, str(error).encode()), str(error))
            )
        self.refused += 1

    async def forward(self, due: Sequence[RelayedMessage]) -> set[str]:
        """Send these messages, in order within each sharding key, then settle them.

        After a failed send, later messages with its sharding key are not sent until the failed message is.
        """
        self._hold.check()
        with _errors_to_retry():
            await self._settle()
        lanes: dict[_Lane, list[RelayedMessage]] = {}
        for each in due:
            topic, message = to_send(each)
            key = message.properties.get(SHARDING_KEY)
            lanes.setdefault((topic, key) if key else each.id, []).append(each)
        left: list[RelayedMessage] = []
        await _all(self._send_all(lane, messages, left) for lane, messages in lanes.items())
        self._owed += left
        with suppress(ClusterError):  # the next call begins by settling these messages
            await self._settle()
        return {each.id for each in left}

    async def _send_all(
        self, lane: _Lane, messages: Sequence[RelayedMessage], left: list[RelayedMessage]
    ) -> None:
        """Send these messages in order, until one fails or has to wait for an earlier failed message."""
        for each in messages:
            place = each.due_us, each.number
            if place > self._failed.get(lane, place):
                return
            async with self._sends:
                if not (self._hold.is_believed and await self._is_sent(each)):
                    self._failed[lane] = place
                    return
            if self._failed.get(lane) == place:
                del self._failed[lane]
            left.append(each)

    async def _is_sent(self, pending: RelayedMessage) -> bool:
        try:
            await self._send(pending)
        except (ClusterError, *_UNREADABLE) as error:
            self._tell(str(error))
            return False
        return True

    async def _send(self, pending: RelayedMessage) -> None:
        topic, message = to_send(pending)
        try:
            await self._topics.send(topic, message)
        except UnfitMessageError as error:
            named = message._replace(properties=message.properties | {RELAY_TOPIC: topic})
            await self._refuse(pending.id, named, error)

    async def _settle(self) -> None:
        """Settle sent messages, which is safe even after the lock was lost."""
        if not self._owed:
            return
        owed, self._owed = self._owed, []
        try:
            await self._log.settle(owed)
        except BaseException:
            self._owed += owed
            raise

    async def _tidy(self) -> None:
        """Settle sent messages, carry old records, and commit the log's offset."""
        self._hold.check()
        await self._settle()
        if steady_us() - self._carried_us > _CARRY_US:
            has_more = await self._log.carry(wall_us())
            self._carried_us = 0 if has_more else steady_us()
        if steady_us() - self._committed_us > _COMMIT_US:
            self._committed_us = steady_us()
            await self._log.commit()

    async def close(self) -> None:
        """Settle sent messages, and unlock the queue."""
        hold, self._hold = self._hold, Hold(self.delayed)
        was_ours = hold.is_believed
        with suppress(ClusterError):
            await self._settle()
            if was_ours:
                await self._log.commit()
        self._owed.clear()
        with suppress(ClusterError):
            await self._locks.release(hold)

    def _tell(self, trouble: str) -> None:
        """Log the reason why messages cannot be sent, if it is a new reason."""
        if trouble != self._trouble:
            self._trouble = trouble
            log.warning("%s: %s; retrying", self.name, trouble)


@contextmanager
def _errors_to_retry() -> Iterator[None]:
    """Raise refusals, timeouts and unreadable responses of brokers as RetryableError."""
    try:
        yield
    except RelayError:
        raise
    except EmulatorError as error:
        raise RetryableError(str(error)) from error
    except _UNREADABLE as error:
        raise RetryableError(f"an answer of the broker cannot be read: {error!r}") from error


async def _all(work: Iterable[Awaitable[object]]) -> None:
    """Wait for all tasks, so that none is left running, then raise the first error."""
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result


def _plain_body(record: WireRecord) -> bytes:
    """Return the body, decompressed from zlib up to a size limit."""
    if record.sys_flag & _COMPRESSED:
        with suppress(zlib.error):
            return zlib.decompressobj().decompress(record.body, _LARGEST_BODY)
    return record.body
