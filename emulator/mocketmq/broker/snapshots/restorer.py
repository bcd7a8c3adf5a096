"""Replaces the broker's state with a snapshot, while clients are connected.

All rows are replaced in one transaction of the writer, except messages that the store still has
(:class:`Lineage`). A kill therefore leaves either the former or the restored state:

- The messages that a delay scheme keeps outside of the store are written before the transaction, and
  recorded as settled. The transaction removes this record. After a kill, the next start finds the record,
  and removes the messages. Messages that the snapshot does not have are settled by the transaction, and
  removed after it.
- Memory is loaded from the store by the same functions as at a start, in ``on_commit`` and before any other
  task runs (``Database.reading_at_once``). Queues, groups and positions stay the same objects, because
  requests in progress refer to them.

Work that waits for the writer during the transaction runs after it, and may refer to queues and groups that
the snapshot does not have. It checks for that (``Queue.is_gone``, ``check_exists``) before it changes the
batch.

Clients continue as after a reset. Long polls end. Consumers that keep offsets in memory get a notice with
the restored offsets, and their commits are ignored until then. Handles of deliveries that the restore has
undone are refused. Unlike a reset, a restore sets offsets back, so that the same requests get the same
answers again.
"""

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import count, zip_longest
from typing import Any, Final, NamedTuple, TypeVar

from mocketmq.broker.consuming.committed_offsets import CommittedOffsets
from mocketmq.broker.consuming.consuming_groups import ConsumingGroups
from mocketmq.broker.consuming.group_queue import GroupQueue
from mocketmq.broker.consuming.polls import Polls
from mocketmq.broker.consuming.receipts import Receipts
from mocketmq.broker.lite.subscriptions import LiteSubscriptions
from mocketmq.broker.registry.clients import BROADCASTING, OffsetReset
from mocketmq.broker.registry.registry import Registry, declare
from mocketmq.broker.removal.retention import Retention
from mocketmq.broker.snapshots.snapshot_file import Manifest, SnapshotState
from mocketmq.broker.transactions.half_messages import HalfMessages
from mocketmq.clock import US_PER_MS
from mocketmq.errors import EmulatorError, SnapshotDamagedError, StoreUnavailableError
from mocketmq.faults.rule_set import FaultRules
from mocketmq.message.names import BROKER, CLUSTER, SCHEDULE_TOPIC, TIMER_TOPIC
from mocketmq.schedule.held_deliveries import HeldDeliveries
from mocketmq.schedule.level import load_levels
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.schedule.timed_scheme import KeptRecord, TimedScheme
from mocketmq.schedule.timer import Timer
from mocketmq.settings import Settings
from mocketmq.store.attached_snapshot import attached_snapshot
from mocketmq.store.batch import Batch
from mocketmq.store.counters import read_past
from mocketmq.store.message_keys import MessageKeys
from mocketmq.store.snapshot_rows import restore_rows, shares_most
from mocketmq.store.store import Store

_OWN_TOPICS: Final = (SCHEDULE_TOPIC, TIMER_TOPIC, CLUSTER, BROKER)

_KEPT: Final = (
    "SELECT scheme, due_ms, number, key_hash, content FROM snapshot.kept_records ORDER BY scheme, number"
)
_TOPICS: Final = "SELECT name FROM snapshot.topics"
_BROKERS: Final = "SELECT coalesce((SELECT value FROM snapshot.counters WHERE name = 'brokers'), 1)"

T = TypeVar("T")


MAX_STATES: Final = 64
MAX_BRANCHES: Final = 1_000
"""Maximum numbers of states that are remembered, and of branches of each."""


class _Branch(NamedTuple):
    """The messages from a log offset up to the next branch."""

    begin: int
    number: int


class StateHistory(NamedTuple):
    """The branches of a state, and its next log offset."""

    branches: Sequence[_Branch]
    end: int


class Lineage:
    """Determines up to which log offset a snapshot and the store have the same messages.

    A message never changes after its commit, unless a crash loses it, and log offsets rise. Two states of one
    broker therefore have the same messages up to the log offset at which their histories diverge. Histories
    diverge at a restore, because messages stored after the restore reuse log offsets, and at a loss. A
    history is therefore a list of branches, each with the log offset at which it begins, and a restore or a
    loss begins a new branch. Either state may lack messages that were deleted.

    Only states that this process has saved or restored are known, by the digest of their database: a file
    that was changed by hand has another digest. States of earlier runs are not known, because a power failure
    may have undone the last commits of these runs.
    """

    def __init__(self) -> None:
        self._numbers = count()
        self._branches = [self._new_branch(0)]
        self._states: dict[str, StateHistory] = {}  # by digest

    def history(self, end: int) -> StateHistory:
        """The history of the store as it is now, whose next log offset is ``end``."""
        return StateHistory([one for one in self._branches if one.begin < end], end)

    def remember(self, digest: str, state: StateHistory) -> None:
        """Note the history of a snapshot, which is the store's history when the rows were copied."""
        self._states.pop(digest, None)
        self._states[digest] = state
        while len(self._states) > MAX_STATES:
            del self._states[next(iter(self._states))]

    def restored(self, digest: str, end: int) -> None:
        """Note the restore of a snapshot whose next log offset is ``end``."""
        state = self._states.get(digest)
        if state is None or len(state.branches) >= MAX_BRANCHES:
            state = StateHistory([self._new_branch(0)], end)
        self.remember(digest, state)
        self._branches = [*state.branches, self._new_branch(end)]

    def changed(self, begin: int) -> None:
        """Note that messages from this log offset on may have changed."""
        kept = [one for one in self._branches if one.begin < begin]
        has_room = len(kept) < MAX_BRANCHES
        self._branches = [*kept, self._new_branch(begin)] if has_room else [self._new_branch(0)]

    def shared_end(self, digest: str) -> int:
        """The log offset up to which store and snapshot share their messages; 0 if the state is unknown."""
        state = self._states.get(digest)
        if state is None:
            return 0
        for ours, theirs in zip_longest(self._branches, state.branches):
            if ours != theirs:
                return min(state.end, *(one.begin for one in (ours, theirs) if one is not None))
        return state.end

    def _new_branch(self, begin: int) -> _Branch:
        return _Branch(begin, next(self._numbers))


@dataclass(eq=False, repr=False)
class Restorer:
    """Replaces the broker's state. Calls ``on_restored`` once everything else is replaced."""

    _settings: Settings
    _store: Store
    _registry: Registry
    _groups: ConsumingGroups
    _receipts: Receipts
    _committed: CommittedOffsets
    _polls: Polls
    _timer: Timer
    _schemes: SchemeSet
    _levels: LevelQueues
    _held: HeldDeliveries
    _half_messages: HalfMessages
    _lite_subscriptions: LiteSubscriptions
    _message_keys: MessageKeys
    _faults: FaultRules
    _retention: Retention
    _start_brokers: Callable[[], Awaitable[None]]
    _on_restored: Sequence[Callable[[], None]]
    lineage: Lineage = field(init=False, default_factory=Lineage)

    async def restore(self, name: str, state: SnapshotState) -> None:
        """Go back to the state of this snapshot. Durable on return; must not be cancelled.

        Raises SnapshotDamagedError, or a StoreError, and then changes nothing, unless the error says that the
        snapshot was restored: then a later step, as at a start of the broker, has failed.
        """
        database = self._store.database
        await self._committed.save_reported()
        async with AsyncExitStack() as stack:
            connection = await stack.enter_async_context(attached_snapshot(database, state.content))
            async with database.exclusively():
                topics, brokers, records = await asyncio.to_thread(_rows_of, connection)
            if brokers != self._settings.brokers:
                raise SnapshotDamagedError(
                    f"snapshot {name} was saved by a cluster with --brokers {brokers}; this one"
                    f" has {self._settings.brokers}. Start mocketmq with the same number"
                )
            await stack.enter_async_context(self._timer.intervention())
            await stack.enter_async_context(self._schemes.listing())
            await stack.enter_async_context(self._message_keys.pausing())
            await stack.enter_async_context(self._retention.removing)
            vanishing = {topic.name for topic in self._registry.topics} - topics
            await stack.enter_async_context(self._registry.topics.creating)
            stack.enter_context(self._registry.topics.closing(*vanishing))
            # Waits until earlier sends to these topics are stored.
            await self._store.writer.commit(lambda _batch: None, until="visible")
            shared_end = await self._shared_end(state.manifest)
            moved = await self._replace(state.manifest, self._of_schemes(records), shared_end)
        try:
            await self._continue()
        except EmulatorError as error:
            raise StoreUnavailableError(
                f"snapshot {name} was restored, but the broker could not finish starting from it:"
                f" {error}. Restore it again"
            ) from error
        finally:
            self._notify(moved)

    async def _shared_end(self, manifest: Manifest) -> int:
        """The log offset below which the messages stay; 0 if it is quicker to replace all."""
        end = self.lineage.shared_end(manifest.sha256)
        return end if await shares_most(self._store.database, end, manifest.messages) else 0

    def _of_schemes(
        self, by_name: Mapping[str, Sequence[KeptRecord]]
    ) -> Sequence[tuple[TimedScheme, Sequence[KeptRecord]]]:
        """Give kept messages to their delay schemes. The first scheme gets messages of unknown schemes."""
        found: dict[TimedScheme, list[KeptRecord]] = {one: [] for one in self._schemes.all_timed}
        for name, records in by_name.items():
            found[self._schemes.timed(name)] += records
        return [*found.items()]

    async def _replace(
        self, manifest: Manifest, records: Sequence[tuple[TimedScheme, Sequence[KeptRecord]]], shared_end: int
    ) -> list[GroupQueue]:
        """Replace store and memory, in one transaction. Returns the positions of connected consumers.

        Below the log offset ``shared_end``, the store already has the snapshot's messages.
        """
        moved: list[GroupQueue] = []

        def work(batch: Batch) -> None:
            own = [(one.name, len(one.queues)) for one in self._registry.topics if one.name in _OWN_TOPICS]
            restore_rows(batch, self._store, manifest.now_us, own, shared_end)
            batch.on_commit(partial(self._reload, manifest, moved))
            for scheme, some in records:
                scheme.restore(batch, some)

        try:
            for scheme, some in records:
                await scheme.stage(some)
            await self._store.writer.commit(work, alone=True, until="visible")
        except BaseException:
            for scheme, _ in records:
                await scheme.unstage()
            raise
        return moved

    def _reload(self, manifest: Manifest, moved: list[GroupQueue]) -> None:
        """Read everything that is kept in memory again."""
        self.lineage.changed(0)  # if the rest fails, the store shares no records with any snapshot
        self._store.clock.begin_at(manifest.now_us)
        with self._store.database.reading_at_once():
            moved += _at_once(self._load_all())
        self.lineage.restored(manifest.sha256, self._store.writer.next_log_offset)
        self._lite_subscriptions.look_again()
        for act in (*self._on_restored, self._polls.end):
            act()

    async def _load_all(self) -> list[GroupQueue]:
        database, registry, table = self._store.database, self._registry, self._levels.table
        await self._faults.reload()
        await registry.topics.reload()
        await registry.groups.reload()
        await registry.request_modes.reload()
        moved = await self._groups.reload(registry.topics, self._keeps_offsets)
        await self._receipts.reload()
        levels, _ = await load_levels(database, table, registry.topics.levels())
        await self._levels.reload(levels)
        await self._held.reload()
        past = await read_past(database)
        writer = self._store.writer
        writer.next_log_offset, writer.last_store_us = past.next_log_offset, past.last_us
        self._message_keys.indexed_to = past.keys_indexed_to
        return moved

    def _keeps_offsets(self, group: str) -> bool:
        """Whether the group has connected consumers that request its offset only when they start."""
        live = self._registry.clients.find_connected_group(group)
        return live is not None and live.model != BROADCASTING

    async def _continue(self) -> None:
        """Run the steps that follow loading the state at a start. Each may be repeated after a failure."""
        topics = self._registry.topics
        await self._schemes.reload_lines(topics.queue)
        await self._half_messages.load()
        await self._faults.tell_changed()
        await self._start_brokers()
        used_topics = self._registry.used_topics
        await used_topics.set_auto_create(is_on=used_topics.auto_create)
        await declare(self._settings, topics, self._registry.groups, only_missing=True)

    def _notify(self, moved: Iterable[GroupQueue]) -> None:
        """Notify the timer, and connected consumers of their restored offsets."""
        self._timer.changed()
        offsets: defaultdict[tuple[str, str], dict[int, int]] = defaultdict(dict)
        for position in moved:
            if position.queue.lite_topic is None:
                key = position.group.name, position.queue.topic
                offsets[key][position.queue.queue_id] = position.start_offset
        timestamp_ms = self._store.clock.to_wall(self._store.clock.now_us()) // US_PER_MS
        for (group, topic), found in offsets.items():
            self._registry.clients.push_offsets(OffsetReset(group, topic, timestamp_ms, True, found))


def _rows_of(connection: sqlite3.Connection) -> tuple[set[str], int, Mapping[str, Sequence[KeptRecord]]]:
    """The topics, the number of brokers, and the kept messages by scheme, of the attached snapshot."""
    topics = {name for (name,) in connection.execute(_TOPICS)}
    [(brokers,)] = connection.execute(_BROKERS).fetchall()
    kept: defaultdict[str, list[KeptRecord]] = defaultdict(list)
    for scheme, *record in connection.execute(_KEPT):
        kept[scheme].append(KeptRecord(*record))
    return topics, brokers, kept


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never has to wait, and return its result."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("a part of the broker waited for something while a snapshot was restored")
