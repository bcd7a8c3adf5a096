"""Copies the broker's state into a database in memory, while sends wait a few milliseconds."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from mocketmq.broker.snapshots.lineage import Lineage, StateHistory
from mocketmq.broker.snapshots.snapshot_file import MAX_BYTES, SnapshotState, new_manifest
from mocketmq.clock import wall_us
from mocketmq.errors import SnapshotQuotaError
from mocketmq.schedule.level_queues import LevelQueues
from mocketmq.schedule.scheme_set import SchemeSet
from mocketmq.schedule.timed_scheme import KeptRecord
from mocketmq.schedule.timer import Timer
from mocketmq.store.batch import Batch
from mocketmq.store.snapshot_rows import empty_snapshot, save_rows
from mocketmq.store.store import Store

_KEEP: Final = "INSERT OR IGNORE INTO snapshot.kept_records VALUES (?, ?, ?, ?, ?)"


class CapturedState(NamedTuple):
    """A copy of the state, and the history of the store when its rows were copied."""

    state: SnapshotState
    history: StateHistory


class _Chosen(NamedTuple):
    """The pending messages of a scheme, chosen but not read."""

    scheme: str
    read: Callable[[], Iterable[KeptRecord]]


async def capture_state(
    store: Store, timer: Timer, schemes: SchemeSet, levels: LevelQueues, lineage: Lineage
) -> CapturedState:
    """Copy the state as it is now.

    Must not be cancelled, because a thread uses the connection that writes. Raises a StoreError, and
    SnapshotQuotaError before much is copied.
    """
    database = store.database
    size = await database.used_bytes()
    check_size(size)
    async with database.attached(empty_snapshot()) as connection, timer.intervention():

        def work(batch: Batch) -> tuple[int, StateHistory, int, Sequence[_Chosen]]:
            chosen = [_Chosen(one.name, one.choose_records()) for one in schemes.all_timed]
            save_rows(batch, list(levels.delay_offsets))
            return batch.now_us, lineage.history(batch.next_log_offset), schemes.pending, chosen

        now_us, history, pending, chosen = await store.writer.commit(work, alone=True, until="visible")

        def finish() -> tuple[bytes, tuple[int, int, int]]:
            with connection:  # commits, or rolls back before a waiting send uses the connection
                connection.executemany(_KEEP, _kept_rows(chosen, size))
            counts = [
                connection.execute(f"SELECT count(*) FROM snapshot.{table}").fetchone()[0]
                for table in ("topics", "groups", "messages")
            ]
            return connection.serialize(name="snapshot"), (counts[0], counts[1], counts[2])

        async with database.exclusively():
            content, (topics, groups, messages) = await asyncio.to_thread(finish)
    manifest = new_manifest(
        saved_us=wall_us(),
        now_us=now_us,
        clock=store.clock.mode,
        topics=topics,
        groups=groups,
        messages=messages,
        pending=pending,
    )
    return CapturedState(SnapshotState(manifest, content), history)


def _kept_rows(chosen: Sequence[_Chosen], size: int) -> Iterator[tuple[object, ...]]:
    """The rows of pending messages. ``size`` is that of the store."""
    for scheme, read in chosen:
        for record in read():
            size += len(record.content)
            check_size(size)
            yield scheme, *record


def check_size(size: int) -> None:
    """Raise SnapshotQuotaError if a snapshot may not have ``size`` bytes."""
    if size > MAX_BYTES:
        raise SnapshotQuotaError(
            f"the snapshot would have {size} bytes or more; allowed: {MAX_BYTES}. Remove messages, or begin"
            " with an empty store"
        )
