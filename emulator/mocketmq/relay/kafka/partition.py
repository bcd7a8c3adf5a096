"""A partition of the delay topic on Kafka, with its pending log.

The relay is exactly once. To keep arrivals, one transaction writes them to the pending log and commits the
position in the delay topic. To forward due messages, one transaction writes each message to its real topic
and its tombstone to the pending log. So after a crash, a message is either pending or settled, never both.

All transactions of a partition use one producer. Its transactional id names the partition of the pending log.
A relay that takes over a partition first opens this producer, which fences the previous owner. Kafka then
aborts the owner's open transaction and refuses later transactions. After a failed transaction, the relay
takes over the partition again, because the producer is unusable and only the log shows whether the
transaction took effect.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    IllegalOperation,
    InvalidTimestampError,
    KafkaError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    ProducerFenced,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    UnknownError,
)
from aiokafka.structs import ConsumerRecord

from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.relay.judging import Judge, Judged, UnfitMessageError
from mocketmq.relay.kafka import message as kafka_message
from mocketmq.relay.kafka.message import Headers, KafkaMessage, KafkaRecord
from mocketmq.relay.kafka.options import KafkaOptions
from mocketmq.relay.kafka.topics import KafkaTopics, TopicState, said
from mocketmq.relay.partition import (
    EarlierFirstError,
    LostPartitionError,
    RelayedMessage,
    RetryableError,
    Settled,
)
from mocketmq.relay.shelf import BATCH

log = logging.getLogger(__name__)

_POLL_MS: Final = 1_000
_BACKOFF_MS: Final = 20  # Kafka asks for a retry while it completes the previous transaction
_BATCH_BYTES: Final = 256 << 10  # limit on the size of one partition's records in a request
_LARGEST_REQUEST_BYTES: Final = 64 << 20  # so large that only the broker limits the size
_LOG_BYTES: Final = 8 << 20  # limit on one read of the log
_CLOSING_S: Final = 3.0
_SLOW_S: Final = 10
_OF_THE_MESSAGE: Final = (
    InvalidTimestampError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    UnknownError,  # errors unknown to the client, such as the error for a message without a key
)
"""Errors with which a broker rejects a single message."""
T = TypeVar("T")


class SharedState(NamedTuple):
    """State shared by all partitions of a relay."""

    group: str
    options: KafkaOptions
    topics: KafkaTopics
    judge: Judge
    committed: Callable[[TopicPartition], Awaitable[int | None]]
    """Returns the group's committed offset in a partition of the delay topic."""
    permission: Callable[[int, bool], Awaitable[None]]
    """Waits until the relay may take over the partition. The flag says whether another relay fenced it."""


class _Write(NamedTuple):
    """A record to write, and the id of its message if a broker may reject the record."""

    id: str
    record: KafkaRecord


class KafkaPartition:
    """Implements :class:`~mocketmq.relay.partition.Partition`; arrivals are aiokafka's records."""

    def __init__(self, shared: SharedState, number: int) -> None:
        names = shared.topics.names
        self.name = f"{names.delayed}-{number}"
        self.refused = 0
        self._shared = shared
        self._number = number
        self._place = TopicPartition(names.delayed, number)
        self._log_place = TopicPartition(names.pending, number)
        self._producer: AIOKafkaProducer | None = None
        self._reader: AIOKafkaConsumer | None = None
        self._writing = asyncio.Lock()
        self._was_fenced = False
        self._unfit: dict[str, str] = {}  # reasons why messages are unfit, by id
        self._alone: set[str] = set()  # ids of refused messages, each of which is retried alone
        self._bare: set[str] = set()  # ids of messages with content that even the refused topic rejects
        self._leaderless: set[str] = set()  # topics whose earlier messages may have been set aside
        self._closing: set[asyncio.Task[None]] = set()

    # Taking over

    async def restore(self) -> AsyncGenerator[Sequence[RelayedMessage | Settled], None]:
        """Open the producer, then read the log to its end, including the position in the delay topic."""
        await self._shared.permission(self._number, self._was_fenced)
        self._was_fenced = False
        try:
            self._producer = AIOKafkaProducer(
                transactional_id=f"mocketmq-relay/{self._log_place.topic}/{self._number}",
                max_batch_size=_BATCH_BYTES,
                max_request_size=_LARGEST_REQUEST_BYTES,
                **{"retry_backoff_ms": _BACKOFF_MS, **self._shared.options.common},
                **self._shared.options.producer,
            )
            await self._producer.start()
            position = 0
            async with aclosing(self._log()) as log_records:
                async for records in log_records:
                    for one in records:
                        if one.key == kafka_message.POSITION_KEY:
                            position = int(one.value)
                    yield [*kafka_message.in_log(self.name, records)]
            # The committed offset may lag, because the previous owner's last transaction may not be complete.
            position = max(position, await self._shared.committed(self._place) or 0)
            self._reader = await self._reading(self._place)
            if position:
                self._reader.seek(self._place, position)
        except KafkaError as error:
            raise RetryableError(f"it cannot be taken over ({said(error)})") from error

    async def _reading(self, place: TopicPartition, **options: Any) -> AIOKafkaConsumer:
        reader = AIOKafkaConsumer(
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            **options,
            **self._shared.options.common,
        )
        reader.assign([place])
        try:
            await reader.start()
        except BaseException:
            await self._stop(reader)
            raise
        return reader

    async def _log(self) -> AsyncGenerator[Sequence[ConsumerRecord], None]:
        """Read the records of the pending log up to its current end."""
        place = self._log_place
        reader = await self._reading(place, max_partition_fetch_bytes=_LOG_BYTES)
        try:
            end = (await reader.end_offsets([place]))[place]
            while await reader.position(place) < end:
                found = await reader.getmany(place, timeout_ms=_POLL_MS)
                yield found.get(place, ())
        finally:
            await self._stop(reader)

    # What arrives

    async def arrivals(self) -> Sequence[ConsumerRecord]:
        """Wait for the next records of the delay topic."""
        assert self._reader is not None  # noqa: S101 - it is held
        try:
            found = await self._reader.getmany(self._place, timeout_ms=_POLL_MS, max_records=BATCH)
        except KafkaError as error:
            raise RetryableError(f"it cannot be read ({said(error)})") from error
        return found.get(self._place, ())  # type: ignore[no-any-return]  # the client has no types

    async def keep(self, arrivals: Sequence[ConsumerRecord]) -> Sequence[RelayedMessage]:
        """Keep these messages and commit the position in the delay topic, in one transaction."""
        now_us = wall_us()
        judged = {self._id(one): self._judge(one, now_us) for one in arrivals}
        topics = {each.topic for each in judged.values() if isinstance(each, Judged)}
        states = await self._shared.topics.states(topics)
        kept: list[RelayedMessage] = []
        for batch in self._batches(arrivals, self._id):
            pending: list[RelayedMessage] = []
            writes: list[_Write] = []
            for one in batch:
                name, found = self._id(one), judged[self._id(one)]
                why = found if isinstance(found, str) else self._unfit.get(name) or _why(found.topic, states)
                if why or isinstance(found, str):
                    writes.append(self._refusal(name, one.key, one.value, one.headers, why))
                else:
                    message = KafkaMessage(found.topic, one.key, one.value, list(one.headers), one.timestamp)
                    pending.append(kafka_message.pending_of(name, one.offset, found.due_us, message))
                    writes.append(_Write(name, kafka_message.kept(pending[-1], *self._log_place)))
            position = batch[-1].offset + 1
            writes.append(_Write("", kafka_message.position(position, *self._log_place)))
            await self._write(writes, position)
            self.refused += len(batch) - len(pending)
            kept += pending
        return kept

    def _id(self, one: ConsumerRecord) -> str:
        return f"{self.name}/{one.offset}"

    def _judge(self, one: ConsumerRecord, now_us: int) -> Judged | str:
        """Return the message's real topic and due time, or the reason to refuse it."""
        if one.key is None and one.value is None:
            return "the message has neither a key nor a value; allowed: at least one of them"
        words = kafka_message.words_of(one.headers)
        sent_us = one.timestamp * US_PER_MS if one.timestamp >= 0 else now_us
        try:
            return self._shared.judge.judge(words, one.value, sent_us, now_us)
        except UnfitMessageError as error:
            return str(error)

    # What is due

    async def forward(self, due: Sequence[RelayedMessage]) -> Collection[str]:
        """Send these messages and settle them, in one transaction."""
        messages = {one.id: kafka_message.message_in(one) for one in due}
        states = await self._shared.topics.states({each.topic for each in messages.values()})
        leaderless = {name for name, state in states.items() if state is TopicState.LEADERLESS}
        if back := self._leaderless & (states.keys() - leaderless):
            self._leaderless.clear()
            raise EarlierFirstError(f"earlier messages may wait for the topics {', '.join(sorted(back))}")
        self._leaderless |= leaderless
        able = [one for one in due if messages[one.id].topic not in leaderless]
        for batch in self._batches(able, lambda one: one.id):
            writes: list[_Write] = []
            refused = 0
            for one in batch:
                message = messages[one.id]
                if why := self._unfit.get(one.id) or _why(message.topic, states):
                    refused += 1
                    writes.append(self._refusal(one.id, message.key, message.value, message.headers, why))
                else:
                    writes.append(_Write(one.id, kafka_message.forwarded(one, message)))
                writes.append(_Write("", kafka_message.settled(one, *self._log_place)))
            await self._write(writes, None)
            self.refused += refused
        return {one.id for one in able}

    def _refusal(
        self, name: str, key: bytes | None, value: bytes | None, headers: Headers, why: str
    ) -> _Write:
        if name in self._bare:
            value, why = None, f"{why}; its content is left out, as this topic refuses it"
        topic = self._shared.topics.names.refused
        return _Write(name, kafka_message.refused(name, topic, key, value, headers, why))

    def _batches(self, items: Sequence[T], id_of: Callable[[T], str]) -> list[list[T]]:
        """Yield one batch for all messages, but a separate batch for each message with rejected records."""
        batches: list[list[T]] = []
        is_full = True
        for one in items:
            is_alone = id_of(one) in self._alone
            if is_full or is_alone:
                batches.append([])
            batches[-1].append(one)
            is_full = is_alone
        return batches

    # Transactions

    async def _write(self, writes: Sequence[_Write], position: int | None) -> None:
        """Write all records and commit the position, if given, in one transaction."""
        async with self._writing:
            task = asyncio.create_task(self._transaction(writes, position))
            try:
                await asyncio.wait([task], timeout=_SLOW_S)
                if not task.done():
                    log.warning("%s: Kafka has not answered for %s s; waiting", self.name, _SLOW_S)
                await task
            finally:
                task.cancel()
        for each in writes:
            self._unfit.pop(each.id, None)
            self._alone.discard(each.id)
            self._bare.discard(each.id)

    async def _transaction(self, writes: Sequence[_Write], position: int | None) -> None:
        producer = self._producer
        assert producer is not None  # noqa: S101 - it is held
        answers: list[asyncio.Future[Any]] = []
        try:
            await producer.begin_transaction()
            for _, (topic, key, value, headers, partition) in writes:
                answers.append(await producer.send(topic, value, key, partition, headers=headers))
            if position is not None:
                await producer.send_offsets_to_transaction({self._place: position}, self._shared.group)
            # Check every outcome, because the client would commit even if some records were refused.
            outcomes = await asyncio.gather(*answers, return_exceptions=True)
            if failed := [one for one in outcomes if isinstance(one, BaseException)]:
                self._note(zip(writes, outcomes, strict=True))
                raise failed[0]
            await producer.commit_transaction()
        except ProducerFenced as error:
            self._was_fenced = True
            raise LostPartitionError(
                "another relay has taken it over, or a transaction took too long"
            ) from error
        # AssertionError, because aiokafka asserts the state of its transaction.
        except (KafkaError, IllegalOperation, AssertionError) as error:
            self._shared.topics.doubt()
            text = said(error) if isinstance(error, KafkaError) else repr(error)
            raise LostPartitionError(f"a transaction has failed ({text})") from error
        finally:
            for answer in answers:
                if not answer.cancel() and not answer.cancelled():
                    answer.exception()  # otherwise the event loop logs that the exception was never retrieved

    def _note(self, outcomes: Iterable[tuple[_Write, object]]) -> None:
        """Record rejected messages. A message rejected alone is unfit; others are retried one by one."""
        refused = {
            write.id: f"the topic {write.record.topic} refused it ({said(outcome)})"
            for write, outcome in outcomes
            if write.id and isinstance(outcome, _OF_THE_MESSAGE)
        }
        self._bare.update(name for name in refused if name in self._unfit)
        self._alone.update(refused)
        if len(refused) == 1:
            self._unfit |= {name: why for name, why in refused.items() if name not in self._unfit}

    # The end

    async def close(self) -> None:
        """Close the connections, in the background if Kafka does not answer."""
        parts = [part for part in (self._reader, self._producer) if part is not None]
        self._reader = self._producer = None
        await asyncio.gather(*map(self._stop, parts))

    async def _stop(self, part: AIOKafkaConsumer | AIOKafkaProducer) -> None:
        # In a task, because stopping cancels the producer's own tasks, and raises their CancelledError here.
        task = asyncio.create_task(part.stop())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        await asyncio.wait([task], timeout=_CLOSING_S)
        if task.done() and not task.cancelled() and (error := task.exception()):
            log.debug("%s: closing a client failed: %r", self.name, error)


def _why(topic: str, states: dict[str, TopicState]) -> str:
    """Return the reason why no message can ever be sent to the topic; empty if messages can, now or later."""
    state = states[topic]
    return (
        f"the real topic {topic} {state.value}" if state in (TopicState.MISSING, TopicState.FORBIDDEN) else ""
    )
