"""Counters that outlive the rows that they count, and the table of past runs."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from mocketmq.clock import Mark, wall_us
from mocketmq.store.batch import Batch
from mocketmq.store.database import Database
from mocketmq.store.store import Store
from mocketmq.store.writer import Writer

SAVE_NEXT_LOG_OFFSET = (
    "INSERT INTO counters VALUES ('next_log_offset', ?)"
    " ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)"
)
_SAVE_BROKERS = "INSERT OR REPLACE INTO counters VALUES ('brokers', ?)"
_LAST_RUN = "SELECT run, clock, started_wall_us, started_us FROM runs ORDER BY run DESC LIMIT 1"
_LAST_MOVE = "SELECT wall_us, to_us FROM clock_moves WHERE run = ? ORDER BY move DESC LIMIT 1"
# Columns are named, because a connection opened before an upgrade may not know the newest columns yet.
# SQLite reloads the schema when it meets an unknown name, but not for a wrong number of values.
_BEGIN_RUN = (
    "INSERT INTO runs (run, started_wall_us, started_us, version, host, profile, clock, levels, durability,"
    " brokers) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_RECORD_MOVE = "INSERT INTO clock_moves (run, wall_us, from_us, to_us) VALUES (?, ?, ?, ?)"


_HAS_MOVED = """
SELECT EXISTS (SELECT 1 FROM clock_moves WHERE to_us > from_us
AND move > coalesce((SELECT value FROM counters WHERE name = 'reset_at_move'), 0))"""
_FORGET_MOVES = "DELETE FROM clock_moves"
_NOTE_RESET = """
INSERT OR REPLACE INTO counters SELECT 'reset_at_move', coalesce(max(move), 0) FROM clock_moves"""


class Past(NamedTuple):
    """What the store remembers of earlier runs. Instants in emulated microseconds, 0 if there was none."""

    next_log_offset: int
    last_store_us: int  # store time of the newest message
    last_us: int  # the latest recorded instant of all runs
    mark: Mark | None  # the last setting of the last run's clock
    run: int  # the number of the last run, 0 if none
    keys_indexed_to: int
    brokers: int  # number of brokers of the cluster


async def read_past(database: Database) -> Past:
    """Read what the store remembers of earlier runs. Cheap, because it reads only the newest rows."""
    counters = dict(await database.rows("SELECT name, value FROM counters"))
    newest = await database.rows("SELECT log_offset, store_us FROM messages ORDER BY log_offset DESC LIMIT 1")
    log_offset, last_store_us = newest[0] if newest else (-1, 0)
    run, last_us, mark = 0, last_store_us, None
    for run, mode, started_wall_us, started_us in await database.rows(_LAST_RUN):
        moves = await database.rows(_LAST_MOVE, (run,))
        mark = Mark(mode, *(moves[0] if moves else (started_wall_us, started_us)))
        last_us = max(last_us, mark.at_us)
    return Past(
        next_log_offset=max(counters.get("next_log_offset", 0), log_offset + 1),
        last_store_us=last_store_us,
        last_us=last_us,
        mark=mark,
        run=run,
        keys_indexed_to=counters.get("keys_indexed_to", 0),
        brokers=counters.get("brokers", 1),
    )


class Run(NamedTuple):
    """One run of the broker, to which rows of the ledger refer."""

    run: int
    started_wall_us: int
    started_us: int
    version: str
    host: str
    profile: str
    clock: str
    levels: str
    durability: str
    brokers: str  # names, separated by commas; empty for a single broker


async def begin_run(writer: Writer, run: Run, brokers: int) -> None:
    """Record the start of a run, and the number of the cluster's brokers."""

    def work(batch: Batch) -> None:
        batch.execute(_BEGIN_RUN, run)
        if brokers > 1:
            batch.execute(_SAVE_BROKERS, (brokers,))

    await writer.commit(work)


async def arrive(store: Store, from_us: int, to_us: int, is_clear: Callable[[], bool]) -> bool:
    """Set the clock to the end of a move, and record the move for restarts and reports.

    A restart begins no earlier than ``to_us``. Runs in a transaction of its own, so ``is_clear`` sees all
    earlier messages, and later messages are stored at ``to_us`` or after. Returns False and changes nothing
    if ``is_clear()`` is false. The move is visible on return, but not yet durable.
    """
    clock = store.clock

    def work(batch: Batch) -> bool:
        if not is_clear():
            return False
        batch.execute(_RECORD_MOVE, (store.run, wall_us(), from_us, max(to_us, clock.now_us())))
        batch.on_commit(partial(clock.reach, to_us))
        return True

    arrived: bool = await store.writer.commit(work, alone=True, until="visible")
    return arrived


async def has_moved(database: Database) -> bool:
    """Whether the clock was moved since the last full reset."""
    return bool((await database.rows(_HAS_MOVED))[0][0])


def note_reset(batch: Batch) -> None:
    """Record a full reset; clock moves before the reset are no longer listed."""
    batch.execute(_NOTE_RESET)


def begin_again(batch: Batch, store: Store, instant_us: int) -> None:
    """Set the clock to an instant, in the transaction that empties the store. A restart continues there."""
    batch.sweep(_FORGET_MOVES)
    batch.execute(_RECORD_MOVE, (store.run, wall_us(), instant_us, instant_us))

    def apply() -> None:
        store.writer.last_store_us = instant_us
        store.clock.begin_at(instant_us)

    batch.on_commit(apply)
