"""Seeds, which are messages with a history, and the transaction that stores them with that history."""

import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import msgspec

from mocketmq.broker.consuming.consuming_groups import ConsumingGroup
from mocketmq.broker.consuming.receipt import Outcome
from mocketmq.broker.consuming.receipts import Receipts
from mocketmq.broker.consuming.retries import FIRST_RETRY_LEVEL, Retries
from mocketmq.broker.sending.intake import AcceptedMessage, Intake
from mocketmq.errors import RefusedError, SeedError
from mocketmq.message.message import Message, StoredMessage
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.store.batch import Batch
from mocketmq.store.queue import Queue


class Seed(NamedTuple):
    """A message, and what has happened to it. Instants in emulated microseconds.

    A relative delay of the message counts from ``sent_us``. The groups in ``consumed_by`` have acknowledged
    the message. Each group in ``failed`` has failed to consume it as often as given there, and will get it
    again. For each group in ``dead``, it is a dead letter after the given number of attempts.
    """

    message: Message
    sent_us: int | None = None  # None: now
    due_us: int | None = None  # its absolute due time on the broker's clock, if it has one
    ordering_key: str | None = None  # determines the queue, if the message requests none
    consumed_by: Sequence[str] = ()
    failed: Mapping[str, int] = {}
    dead: Mapping[str, int] = {}


class Lag(NamedTuple):
    """The group has acknowledged all seeded messages of the topic except the newest ``messages``."""

    group: str
    topic: str
    messages: int


class Planted(NamedTuple):
    """How many messages a seed has stored, and their ids in the order of the seed."""

    message_ids: Sequence[str]
    pending: int  # messages that wait for their due time
    retries: int  # copies that wait for, or have reached, the next attempt of a group
    dead_letters: int


_NOTE: Final = "INSERT OR REPLACE INTO counters VALUES ('declared_seeds', 1)"


class SeedRow(msgspec.Struct, frozen=True):
    """An accepted seed. ``visible_us`` is None while the message is pending."""

    number: int  # index of the message in the request
    seed: Seed
    accepted: AcceptedMessage
    sent_us: int
    visible_us: int | None
    is_delivered: bool  # delayed, and delivered because the delay is over

    @property
    def at_us(self) -> int:
        """The store time of its record."""
        return self.sent_us if self.visible_us is None else self.visible_us


class FailedCopy(msgspec.Struct, frozen=True):
    """A failed message's copy for a group: a retry, or a dead letter."""

    group: ConsumingGroup
    queue: Queue
    attempts: int
    is_dead: bool


class RecordsMovedError(RefusedError):
    """Other records were stored after the seeds had been compared with the newest record."""


@dataclass(eq=False, repr=False)
class Planting:
    """The transaction that stores all seeds."""

    _intake: Intake
    _levels: LevelQueues
    _receipts: Receipts
    _retries: Retries
    _rows: Sequence[SeedRow]
    _consumers: Mapping[int, Mapping[ConsumingGroup, Outcome]]
    _failures: Mapping[int, Sequence[FailedCopy]]
    _once: bool

    @property
    def groups(self) -> Sequence[ConsumingGroup]:
        """The groups that have consumed a seed, in the order of their names."""
        groups = {group for each in self._consumers.values() for group in each}
        return sorted(groups, key=lambda group: group.name)

    def __call__(self, expected_log_offset: int, batch: Batch) -> None:
        if batch.next_log_offset != expected_log_offset:
            raise RecordsMovedError("another record was stored")
        self._intake.check(*(row.accepted for row in self._rows))
        self._check_groups()
        stored: dict[int, StoredMessage] = {}
        numbers = itertools.count()
        later: list[tuple[int, int, Callable[[], object]]] = []  # retries that became visible again
        for row in self._rows:
            while later and later[0][0] <= row.at_us:
                heapq.heappop(later)[2]()
            if row.visible_us is None and row.accepted.claim is not None:
                continue
            message = stored[row.number] = self._append(row, batch)
            for failure in self._failures.get(row.number, ()):
                again = self._fail(batch, message, failure)
                if again is not None:
                    heapq.heappush(later, (again[0], next(numbers), again[1]))
        while later:
            heapq.heappop(later)[2]()
        self._advance_groups(batch, stored)
        if self._once:
            batch.execute(_NOTE)

    def _check_groups(self) -> None:
        """Raise SeedError for a group that would skip messages stored before the seeds."""
        for row in self._rows:
            for group in self._consumers.get(row.number, ()):
                group.check_exists()
                queue, known = row.accepted.queue, group.queues.get(row.accepted.queue)
                reached = queue.min_offset if known is None else known.next_offset
                if reached < queue.next_offset:
                    raise SeedError(
                        f"messages[{row.number}]",
                        f"group {group.name} has not consumed queue {queue.queue_id} of {queue.topic} yet, so"
                        " seeded messages cannot be behind its offset. Reset the broker first, or put all"
                        " messages into one seed",
                    )

    def _append(self, row: SeedRow, batch: Batch) -> StoredMessage:
        accepted = row.accepted
        if row.seed.sent_us is not None:
            accepted.draft.stored_us = row.at_us
        if row.is_delivered:
            return batch.append(accepted.queue, accepted.draft, "delivered")
        return self._intake.append(accepted, batch)

    def _fail(
        self, batch: Batch, message: StoredMessage, failure: FailedCopy
    ) -> tuple[int, Callable[[], object]] | None:
        """Store the copy of a failed message. Returns the delivery of a retry that is already over."""
        level = 0 if failure.is_dead else FIRST_RETRY_LEVEL + failure.attempts - 1
        before = message._replace(reconsume_times=failure.attempts - 1)
        retry = self._retries.copy(failure.group.registered, before, failure.queue, level)
        retry.draft.stored_us = message.store_us
        due_us = message.store_us + self._levels.levels[retry.level - 1].delay_us if retry.level else 0
        if not retry.level or due_us > batch.now_us:
            self._retries.append(batch, retry)
            return None
        retry.draft.stored_us = due_us
        return due_us, partial(batch.append, retry.queue, retry.draft, "delivered")

    def _advance_groups(self, batch: Batch, stored: Mapping[int, StoredMessage]) -> None:
        """Move each group's offsets above the messages that it has seen, and settle these messages.

        A group that has seen a message of a topic has offsets in all queues of the topic with seeds.
        """
        seen: dict[ConsumingGroup, dict[Queue, dict[int, Outcome]]] = {}
        by_queue: dict[Queue, list[StoredMessage]] = {}
        for row in self._rows:
            if row.visible_us is not None:
                by_queue.setdefault(row.accepted.queue, []).append(stored[row.number])
                for group, outcome in self._consumers.get(row.number, {}).items():
                    of_group = seen.setdefault(group, {}).setdefault(row.accepted.queue, {})
                    of_group[stored[row.number].log_offset] = outcome
        for group, queues in seen.items():
            topics = {queue.topic for queue in queues}
            for queue, messages in by_queue.items():
                if queue.topic in topics:
                    self._receipts.begin_settled(batch, group, queue, messages, queues.get(queue, {}))
