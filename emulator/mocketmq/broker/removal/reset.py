"""Resets: empty the broker or one topic between two tests, delete a topic, or wipe a broker that is down.

A reset keeps topics, groups and the clock. Offsets continue instead of starting at 0 again. Otherwise a
connected client could read or commit an old offset that now belongs to another message.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from mocketmq.broker.consuming.consuming_groups import ConsumingGroups
from mocketmq.broker.consuming.ledger_notes import PullTrail
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.lite.expiry import LiteExpiry
from mocketmq.broker.registry.registry import Registry, declare
from mocketmq.errors import GroupNotFoundError, TopicNotFoundError
from mocketmq.event_loop import pieces_of
from mocketmq.faults.rule_set import FaultRules
from mocketmq.message.broker_share import BrokerShare, is_shared_out
from mocketmq.message.names import (
    CHECKED_HALF_TOPIC,
    HALF_PREFIX,
    UNDECIDED_TOPIC,
    dead_letter_topic,
    half_topic,
    is_system_group,
    retry_topic,
)
from mocketmq.schedule.held_deliveries import HeldDeliveries
from mocketmq.schedule.scheme import cancel_in_pieces, pending_in
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.schedule.timer import Timer
from mocketmq.settings import Settings
from mocketmq.store.batch import Batch
from mocketmq.store.counters import SAVE_NEXT_LOG_OFFSET, begin_again, note_reset
from mocketmq.store.messages import IS_RETRY_OF
from mocketmq.store.queue import Queue
from mocketmq.store.receipt_rows import delete_receipts, delete_receipts_of_queue
from mocketmq.store.store import Store
from mocketmq.store.writer import Pieces

_ALL = ("messages", "interventions", "deliveries", "receipts", "progress", "message_keys", "fault_hits")
EMPTIED = "UPDATE queues SET min_offset = ?, next_offset = ?, emptied_at = ? WHERE key = ?"
_AGAIN_OF = f"""
SELECT log_offset FROM queues JOIN messages ON queue_key = key
WHERE (substr(topic, 1, 7) = '%RETRY%' OR substr(topic, 1, 5) = '%DLQ%') AND {IS_RETRY_OF}"""
DELETE_MESSAGE = "DELETE FROM messages WHERE log_offset = ?"
DELETE_MESSAGES = "DELETE FROM messages WHERE queue_key = ?"
_HALVES_OF = """
SELECT log_offset FROM messages JOIN queues ON key = real_queue_key
WHERE topic = ? AND due_us IS NULL AND queue_key IN (SELECT key FROM queues WHERE topic = ?)"""


@dataclass(eq=False, repr=False)
class Reset:
    """Empties the broker or a topic, in one durable transaction.

    If very many delayed messages of a topic are pending, most of them are cancelled before, in transactions
    of bounded size.

    The functions ``on_reset`` are called once everything is empty, and before the response.
    """

    _store: Store
    _registry: Registry
    _groups: ConsumingGroups
    _polls: Polls
    _timer: Timer
    _schemes: SchemeSet
    _lite_expiry: LiteExpiry
    _on_reset: Sequence[Callable[[], None]]

    def check_beginning(self, begin_us: int | None) -> None:
        """Raise ClockError if the clock cannot start again at this instant."""
        if begin_us is not None:
            self._store.clock.check_beginning(begin_us)

    async def all(self, begin_us: int | None = None) -> None:
        """Delete all messages, visible and pending, the ledger, and the receipts of groups.

        The clock starts again at ``begin_us``, earlier or later, if given. All long polls end, because a long
        poll of the previous test could otherwise take the first message of the next test. Raises ClockError
        for an instant before the clock's first start.
        """
        self.check_beginning(begin_us)

        def work(batch: Batch) -> None:
            self._lite_expiry.delete(batch, list(self._registry.topics.lites))
            queues = list(self._registry.topics.queues)
            for table in _ALL:
                batch.sweep(f"DELETE FROM {table}")
            batch.execute(SAVE_NEXT_LOG_OFFSET, (batch.next_log_offset,))
            if begin_us is not None:
                begin_again(batch, self._store, begin_us)
            note_reset(batch)
            batch.on_commit(self._groups.forget_deleted)
            for act in (*self._on_reset, self._polls.end):
                batch.on_commit(act)
            self._schemes.clear(batch)
            self._empty(batch, queues)

        async with self._timer.intervention(), self._schemes.listing():
            await self._store.writer.commit(work, alone=True, until="visible")
            self._timer.changed()

    async def topic(self, name: str) -> None:
        """Delete the topic's messages, their retries and dead letters, and cancel its pending messages.

        Also deletes the topic's half messages, but keeps its rows in the ledger. Raises TopicNotFoundError,
        and NoPermissionError for a system topic.
        """
        self._registry.topics.check_is_for_clients(name)
        await self._empty_topic(name, lambda _batch: None)

    async def delete_topic(self, name: str) -> int:
        """Delete the topic, everything that :meth:`topic` deletes, and every group's offsets in it.

        Returns the number of cancelled delayed messages. Raises TopicNotFoundError, and NoPermissionError
        for a system topic.
        """
        self._registry.topics.check_is_for_clients(name)

        def work(batch: Batch) -> None:
            queues = self._registry.topics.delete(batch, name)
            self._groups.leave_queues(batch, queues)
            for queue in queues:  # waiting consumers then notice the deletion
                batch.on_commit(partial(self._polls.arrived, queue))

        with self._registry.topics.closing(name):
            await self._store.writer.commit(lambda _batch: None)  # waits until all sends so far are stored
            return await self._empty_topic(name, work)

    async def _empty_topic(self, name: str, also: Callable[[Batch], None]) -> int:
        half = self._registry.topics.find_topic(half_topic(name))
        queues = [*self._registry.topics.get(name).queues, *(half.queues if half else ())]
        async with self._timer.intervention():
            cancels = [await scheme.cancel_topic(name) for scheme in self._schemes]
            again = [row[0] for row in await self._store.database.rows(_AGAIN_OF, (name,))]
            for topic in (CHECKED_HALF_TOPIC, UNDECIDED_TOPIC):
                again += [row[0] for row in await self._store.database.rows(_HALVES_OF, (name, topic))]

            def work(batch: Batch) -> int:
                cancelled = sum(cancel(batch) for cancel in cancels)
                self._schemes.leave_line(batch, name)
                self._lite_expiry.delete(batch, list(self._registry.topics.lites.of(name)))
                for queue in queues:
                    delete_receipts_of_queue(batch, queue)
                    batch.sweep(DELETE_MESSAGES, (queue.key,))
                for log_offset in again:
                    delete_receipts(batch, log_offset)
                    batch.execute(DELETE_MESSAGE, (log_offset,))
                batch.execute(SAVE_NEXT_LOG_OFFSET, (batch.next_log_offset,))
                self._empty(batch, queues)
                batch.on_commit(partial(self._groups.close_receipts, again))
                also(batch)
                return cancelled

            cancelled: int = await self._store.writer.commit(work, alone=True, until="visible")
            return cancelled

    def _empty(self, batch: Batch, queues: list[Queue]) -> None:
        emptied_at = batch.next_log_offset
        is_deleted = self._registry.topics.was_deleted
        # Tests with topics of their own leave many deleted topics, whose queues are empty already.
        changed = [
            queue for queue in queues if queue.min_offset < queue.next_offset or not is_deleted(queue.topic)
        ]
        for queue in changed:
            batch.execute(EMPTIED, (queue.next_offset, queue.next_offset, emptied_at, queue.key))

        def apply() -> None:
            for queue in changed:
                queue.min_offset = queue.first_offset = queue.next_offset
                queue.emptied_at = emptied_at
            for group in self._groups:
                group.forget(queues)

        batch.on_commit(apply)


@dataclass(eq=False, repr=False)
class FullReset:
    """The reset between tests: removes fault rules, messages, and undeclared topics and groups."""

    _settings: Settings
    _registry: Registry
    _groups: ConsumingGroups
    _faults: FaultRules
    _reset: Reset
    _heal_cluster: Sequence[Callable[[], Awaitable[None]]]

    async def run(self, begin_us: int | None, *, forget: bool) -> None:
        """Remove all fault rules and messages, and start all brokers and name servers. Raises ClockError.

        ``forget`` also removes topics and groups. Rules are removed first, so that no rule delays or refuses
        the further steps. ``begin_us``, if given, sets the clock.
        """
        self._reset.check_beginning(begin_us)
        await self._faults.clear()
        for heal in self._heal_cluster:
            await heal()
        await self._reset.all(begin_us)
        if forget:
            await self.forget_undeclared()

    async def forget_undeclared(self) -> None:
        """Delete topics and groups neither declared in the settings nor in use by a connected client.

        A client uses what it consumes and, over gRPC, the topics that it sends to, whose names are its
        producer groups. Declared topics and groups get their declared properties again.
        """
        registry, settings = self._registry, self._settings
        names = {group.name for group in settings.groups}
        topics = {topic.name for topic in settings.topics}
        for client in registry.clients:
            names.update(client.producers, client.consumers)
            if client.channel.door == "grpc":
                topics.update(client.producers)
        for group in registry.groups:
            if group.name not in names and not is_system_group(group.name):
                with suppress(GroupNotFoundError):  # a client has deleted the group in the meantime
                    await self._groups.delete(group.name, clean_offsets=True)
        topics.update(name for group in names for name in (retry_topic(group), dead_letter_topic(group)))
        for topic in registry.topics:
            is_used = topic.name in topics or registry.clients.subscribers(topic.name)
            if not is_used and not topic.is_system:
                with suppress(TopicNotFoundError):
                    await self._reset.delete_topic(topic.name)
        await registry.request_modes.forget()
        await declare(settings, registry.topics, registry.groups, anew=True)


_HALVES = """
SELECT log_offset, real_queue_key FROM messages JOIN queues ON key = queue_key
WHERE due_us IS NULL AND real_queue_key IS NOT NULL
AND (topic IN (?1, ?2) OR substr(topic, 1, length(?3)) = ?3)"""


@dataclass(eq=False, repr=False)
class Wipe:
    """Deletes everything that one broker of the cluster has, as if its disk were lost, in one transaction.

    Unlike after a reset, offsets begin at 0 again, so consumers may have offsets beyond the end.
    """

    _store: Store
    _registry: Registry
    _groups: ConsumingGroups
    _timer: Timer
    _schemes: SchemeSet
    _lite_expiry: LiteExpiry
    _held: HeldDeliveries
    _trail: PullTrail

    async def run(self, share: BrokerShare) -> None:
        """Delete the broker's messages, visible, delayed and half, and the offsets of groups there.

        The caller holds the timer's lock.
        """
        queues = [queue for queue in self._registry.topics.queues if self._has(share, queue)]
        keys = {queue.key for queue in queues}
        pending = []
        for scheme in self._schemes:
            found = (one async for one in pending_in(scheme) if one.real_queue_key in keys)
            pending.append((scheme, [one._replace(body=b"") async for one in found]))
        places = (CHECKED_HALF_TOPIC, UNDECIDED_TOPIC, HALF_PREFIX)
        halves = [half for half, key in await self._store.database.rows(_HALVES, places) if key in keys]

        def work(batch: Batch) -> Pieces:
            for scheme, messages in pending:
                yield from cancel_in_pieces(scheme, batch, messages)
            for some in pieces_of(halves):
                for log_offset in some:
                    delete_receipts(batch, log_offset)
                    batch.execute(DELETE_MESSAGE, (log_offset,))
                yield
            batch.on_commit(lambda: self._groups.close_receipts(halves))
            if not share.position:  # all lite topics belong to the first broker
                self._lite_expiry.delete(batch, list(self._registry.topics.lites))
            for queue in queues:
                self._held.drop_repeats(batch, queue)
                delete_receipts_of_queue(batch, queue)
                batch.sweep(DELETE_MESSAGES, (queue.key,))
                batch.execute(EMPTIED, (0, 0, batch.next_log_offset, queue.key))
            self._groups.leave_queues(batch, queues)
            batch.execute(SAVE_NEXT_LOG_OFFSET, (batch.next_log_offset,))
            batch.on_commit(lambda: _begin_again(queues, batch.next_log_offset))
            batch.on_commit(lambda: self._trail.forget(queues))

        await self._store.writer.commit(work, alone=True, until="visible")
        self._timer.changed()

    def _has(self, share: BrokerShare, queue: Queue) -> bool:
        """Whether the queue belongs to this broker, not to a lite topic or the cluster as a whole."""
        is_own = queue.lite_topic is None and is_shared_out(queue.topic)
        return is_own and self._registry.brokers.index_of(queue) == share.position


def _begin_again(queues: Collection[Queue], emptied_at: int) -> None:
    for queue in queues:
        queue.min_offset = queue.first_offset = queue.next_offset = 0
        queue.emptied_at = emptied_at
