"""Saves the whole state of the broker under a name, and goes back to it, while clients are connected.

A save copies all rows in one transaction of the writer, and the messages of the delay schemes under the
timer's lock. A restore replaces all rows in one transaction, but for messages that the store still has
(``lineage``). A kill therefore leaves the state before or after it:

- The messages that a delay scheme keeps outside of the store are written before the transaction, and
  recorded as settled. The transaction removes this record. After a kill, the next start finds it, and
  removes the messages. Messages that the snapshot does not have are settled by the transaction, and removed
  after it.
- Memory is loaded from the store by the functions that load it at a start, in ``on_commit`` and before any
  other task runs (``Database.reading_at_once``). Queues, groups and positions stay the same objects,
  because requests in progress have looked them up.

Clients continue as after a reset. Long polls end. Consumers that keep offsets in memory get a notice with
the restored offsets, and their commits are ignored until then. Handles of deliveries that the restore has
undone are refused. Unlike a reset, a restore takes offsets back, so that the same requests get the same
answers again.
"""

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
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
from mocketmq.broker.snapshots.captured_state import CapturedState, capture_state, check_size
from mocketmq.broker.snapshots.differences import StateDifference, differences
from mocketmq.broker.snapshots.lineage import Lineage
from mocketmq.broker.snapshots.shelf import NAME, NAMES, FileShelf, Kept, MemoryShelf, SnapshotShelf
from mocketmq.broker.snapshots.snapshot_file import (
    Manifest,
    SnapshotState,
    unreadable_manifest,
    write_archive,
)
from mocketmq.broker.transactions.half_messages import HalfMessages
from mocketmq.clock import US_PER_MS
from mocketmq.errors import (
    EmulatorError,
    InvalidArgumentError,
    SnapshotDamagedError,
    SnapshotExistsError,
    SnapshotNotFoundError,
    SnapshotQuotaError,
    StoreUnavailableError,
)
from mocketmq.faults.rule_set import FaultRules
from mocketmq.message.identity import BROKER, CLUSTER
from mocketmq.message.names import SCHEDULE_TOPIC, TIMER_TOPIC
from mocketmq.run_to_completion import run_to_completion
from mocketmq.schedule.held_deliveries import HeldDeliveries
from mocketmq.schedule.level import load_levels
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.schedule.timed_scheme import KeptRecord, TimedScheme
from mocketmq.schedule.timer import Timer
from mocketmq.settings import Settings
from mocketmq.store.counters import read_past
from mocketmq.store.database import MEMORY
from mocketmq.store.message_keys import MessageKeys
from mocketmq.store.snapshot_rows import restore_rows, shares_most
from mocketmq.store.store import Store
from mocketmq.store.writer import Batch

MAX_SNAPSHOTS: Final = 64
MAX_TOTAL_BYTES: Final = 1 << 30
"""Limits of all snapshots of one broker. Files that were copied into its directory count, too."""
FOLDER: Final = "snapshots"
_OWN_TOPICS: Final = (SCHEDULE_TOPIC, TIMER_TOPIC, CLUSTER, BROKER)

_KEPT: Final = (
    "SELECT scheme, due_ms, number, key_hash, content FROM snapshot.kept_records ORDER BY scheme, number"
)
_TOPICS: Final = "SELECT name FROM snapshot.topics"
_BROKERS: Final = "SELECT coalesce((SELECT value FROM snapshot.counters WHERE name = 'brokers'), 1)"

T = TypeVar("T")


class Restored(NamedTuple):
    """The result of a restore: the snapshot, and the time of the clock."""

    kept: Kept
    now_us: int


class Snapshots:
    """All snapshots of the broker. A restore calls ``on_restored`` once everything else is replaced."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        registry: Registry,
        groups: ConsumingGroups,
        receipts: Receipts,
        committed: CommittedOffsets,
        polls: Polls,
        timer: Timer,
        schemes: SchemeSet,
        levels: LevelQueues,
        held: HeldDeliveries,
        half_messages: HalfMessages,
        lite_subscriptions: LiteSubscriptions,
        message_keys: MessageKeys,
        faults: FaultRules,
        retention: Retention,
        start_brokers: Callable[[], Awaitable[None]],
        on_restored: Sequence[Callable[[], None]],
    ) -> None:
        self.shelf = _shelf_of(settings)
        self._settings = settings
        self._store = store
        self._registry = registry
        self._groups = groups
        self._receipts = receipts
        self._committed = committed
        self._polls = polls
        self._timer = timer
        self._schemes = schemes
        self._levels = levels
        self._held = held
        self._half_messages = half_messages
        self._lite_subscriptions = lite_subscriptions
        self._message_keys = message_keys
        self._faults = faults
        self._retention = retention
        self._start_brokers = start_brokers
        self._on_restored = on_restored
        self._lineage = Lineage()
        self._busy = asyncio.Lock()  # one save or restore at a time

    # Look

    async def listed(self) -> "tuple[list[Kept], dict[str, str]]":
        """All snapshots, sorted by name, and why others cannot be read, by name. Raises a StoreError."""
        return await asyncio.to_thread(self._listed)

    def _listed(self) -> "tuple[list[Kept], dict[str, str]]":
        found, damaged = [], {}
        for name in self.shelf.names()[:MAX_SNAPSHOTS]:
            try:
                found.append(Kept(name, self.shelf.manifest(name)))
            except SnapshotNotFoundError:
                continue  # somebody has removed it meanwhile
            except (SnapshotDamagedError, StoreUnavailableError) as error:
                damaged[name] = str(error)
        return found, damaged

    async def find_snapshot(self, name: str) -> Kept:
        """The snapshot. Raises SnapshotNotFoundError, SnapshotDamagedError, or a StoreError."""
        _check_name(name)
        return Kept(name, await asyncio.to_thread(self.shelf.manifest, name))

    async def differences(self, name: str, other: str | None) -> "list[StateDifference]":
        """What happened from a snapshot to another one, or until now.

        Raises the errors of :meth:`find_snapshot`, and SnapshotQuotaError if the state now is too large.
        """
        before = await self._read(name)
        if other is None:
            after = (await self.capture()).state
        else:
            after = await self._read(other)
        return await asyncio.to_thread(differences, before, after)

    async def capture(self) -> CapturedState:
        """The state now, without a name.

        Raises SnapshotQuotaError if the state is too large, or a StoreError.
        """
        return await run_to_completion(self._capture_alone())

    async def _capture_alone(self) -> CapturedState:
        async with self._busy:
            return await self._capture()

    async def _read(self, name: str) -> SnapshotState:
        _check_name(name)
        return await asyncio.to_thread(self.shelf.read, name)

    async def remove(self, name: str) -> Kept:
        """Delete a snapshot. Raises SnapshotNotFoundError, or a StoreError.

        Of a file that cannot be read, the result has only the name and the size.
        """
        _check_name(name)
        async with self._busy:
            return await asyncio.to_thread(self._remove, name)

    def _remove(self, name: str) -> Kept:
        size = self.shelf.size(name)
        try:
            manifest = self.shelf.manifest(name)
        except (SnapshotDamagedError, StoreUnavailableError):
            manifest = unreadable_manifest(size)
        self.shelf.remove(name)
        return Kept(name, manifest)

    # Save

    async def save(self, name: str, *, replace: bool = False) -> Kept:
        """Save the state under this name. It is durable on return.

        Raises SnapshotExistsError unless ``replace`` is set, SnapshotQuotaError, or a StoreError. The earlier
        snapshot is then unchanged.
        """
        _check_name(name)
        return await run_to_completion(self._save(name, replace))

    async def _save(self, name: str, replace: bool) -> Kept:
        async with self._busy:
            await asyncio.to_thread(self._check_room, name, replace, 0)
            captured = await self._capture()
            state = captured.state
            await asyncio.to_thread(self._check_room, name, replace, len(state.content))

            def write() -> Manifest:
                complete, file = write_archive(state)
                self.shelf.write(name, file, complete)
                return complete.manifest

            manifest = await asyncio.to_thread(write)
            self._lineage.saved(manifest.sha256, captured.next_log_offset)
            return Kept(name, manifest)

    def _check_room(self, name: str, replace: bool, size: int) -> None:
        names = self.shelf.names()
        if name in names and not replace:
            raise SnapshotExistsError(
                f"a snapshot with the name {name} exists; delete it, or ask to replace it"
            )
        others = [each for each in names if each != name]
        if len(others) >= MAX_SNAPSHOTS:
            raise SnapshotQuotaError(
                f"there are {len(names)} snapshots; allowed: {MAX_SNAPSHOTS}. Delete some"
            )
        check_size(size)
        total = size + sum(map(self._size_of, others))
        if total > MAX_TOTAL_BYTES:
            raise SnapshotQuotaError(
                f"all snapshots together would have {total} bytes; allowed: {MAX_TOTAL_BYTES}. Delete some"
            )

    def _size_of(self, name: str) -> int:
        try:
            return self.shelf.size(name)
        except SnapshotNotFoundError:
            return 0  # somebody has removed it meanwhile

    async def _capture(self) -> CapturedState:
        await self._committed.save_reported()
        return await capture_state(self._store, self._timer, self._schemes, self._levels)

    # Restore

    async def restore(self, name: str) -> Restored:
        """Go back to the snapshot. Durable on return.

        Raises SnapshotNotFoundError, SnapshotDamagedError, or a StoreError, and then changes nothing, unless
        the error says that the snapshot was restored: what the broker does next, as at a start, has failed.
        """
        _check_name(name)
        return await run_to_completion(self._restore(name))

    async def _restore(self, name: str) -> Restored:
        async with self._busy:
            state, database = await self._read(name), self._store.database
            await self._committed.save_reported()
            async with AsyncExitStack() as stack:
                connection = await stack.enter_async_context(database.attached(state.content))
                async with database.exclusively():
                    topics, brokers, records = await asyncio.to_thread(_rows_of, connection)
                if brokers != self._settings.brokers:
                    raise SnapshotDamagedError(
                        f"snapshot {name} is of a cluster with --brokers {brokers}; this one"
                        f" has {self._settings.brokers}. Start mocketmq with the same number"
                    )
                await stack.enter_async_context(self._timer.intervention())
                await stack.enter_async_context(self._message_keys.pausing())
                await stack.enter_async_context(self._retention.removing)
                vanishing = {topic.name for topic in self._registry.topics} - topics
                await stack.enter_async_context(self._registry.topics.unchanging(vanishing))
                # Waits until earlier sends to these topics are stored.
                await self._store.writer.commit(lambda _batch: None, until="visible")
                shared_end = await self._shared_end(state.manifest)
                moved = await self._replace(state.manifest, self._by_scheme(records), shared_end)
            try:
                await self._continue()
            except EmulatorError as error:
                raise StoreUnavailableError(
                    f"snapshot {name} was restored, but the broker could not finish starting from it:"
                    f" {error}. Restore it again"
                ) from error
            finally:
                self._notify(moved)
        return Restored(Kept(name, state.manifest), self._store.clock.now_us())

    async def _shared_end(self, manifest: Manifest) -> int:
        """The log offset below which the messages stay; 0 if it is quicker to replace all."""
        end = self._lineage.shared_end(manifest.sha256)
        return end if await shares_most(self._store.database, end, manifest.messages) else 0

    def _by_scheme(
        self, rows: Sequence[tuple[str, KeptRecord]]
    ) -> Sequence[tuple[TimedScheme, Sequence[KeptRecord]]]:
        """Divide kept messages among the delay schemes. The first one gets those of unknown schemes."""
        by_scheme: dict[TimedScheme, list[KeptRecord]] = {one: [] for one in self._schemes.all_timed}
        for name, record in rows:
            by_scheme[self._schemes.timed(name)].append(record)
        return [*by_scheme.items()]

    async def _replace(
        self,
        manifest: Manifest,
        records: Sequence[tuple[TimedScheme, Sequence[KeptRecord]]],
        shared_end: int,
    ) -> list[GroupQueue]:
        """Replace store and memory, in one transaction. Returns the positions of connected consumers.

        Messages below the log offset ``shared_end`` are those of the snapshot.
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
        """Read everything again that is kept in memory."""
        self._store.clock.begin_at(manifest.now_us)
        with self._store.database.reading_at_once():
            moved += _at_once(self._load_all())
        self._lineage.restored(manifest.sha256, self._store.writer.next_log_offset)
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
        self._store.writer.next_log_offset, self._store.writer.last_store_us = (
            past.next_log_offset,
            past.last_us,
        )
        self._message_keys.indexed_to = past.keys_indexed_to
        return moved

    def _keeps_offsets(self, group: str) -> bool:
        """Whether consumers of the group are connected that ask for its offset only when they start."""
        live = self._registry.clients.find_connected_group(group)
        return live is not None and live.model != BROADCASTING

    async def _continue(self) -> None:
        """Do what is done after the state is loaded at a start. Each step may be repeated after a failure."""
        topics = self._registry.topics
        await self._schemes.reload_lines(topics.queue)
        await self._half_messages.load()
        await self._faults.tell_restored()
        await self._start_brokers()
        await topics.set_auto_create(is_on=topics.auto_create)
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


def _rows_of(connection: sqlite3.Connection) -> tuple[set[str], int, Sequence[tuple[str, KeptRecord]]]:
    """Topics, number of brokers, and kept messages with their schemes' names, of the attached snapshot."""
    topics = {name for (name,) in connection.execute(_TOPICS)}
    [(brokers,)] = connection.execute(_BROKERS).fetchall()
    return topics, brokers, [(scheme, KeptRecord(*record)) for scheme, *record in connection.execute(_KEPT)]


def _shelf_of(settings: Settings) -> SnapshotShelf:
    if settings.snapshots is not None:
        return FileShelf(Path(settings.snapshots))
    return MemoryShelf() if settings.data == MEMORY else FileShelf(Path(settings.data, FOLDER))


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise InvalidArgumentError("name", name, NAMES)


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never has to wait, and return its result."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("a part of the broker waited for something while a snapshot was restored")
