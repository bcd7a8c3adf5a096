"""Reads the status of a broker's store: its run, its time, and its backlog by level.

The status is cheap enough to read every second, because a read covers only the newest rows, the overdue
messages, and the due times of the messages with an absolute due time, not the messages themselves.
"""

from pathlib import Path
from typing import Final, NamedTuple

from mocketmq.clock import US_PER_S, Mark, wall_us
from mocketmq.errors import StoreUnavailableError, StoreUnreadableError
from mocketmq.message.names import SCHEDULE_TOPIC
from mocketmq.schedule.level_table import LevelTable
from mocketmq.store.database import FILE_NAME
from mocketmq_compat.delay.schemes import SCHEMES
from mocketmq_report.ledger.store_reader import StoreReader, is_running

NO_LEVEL: Final = 0
"""The number used as the level of messages with an absolute due time."""
GRACE_US: Final = US_PER_S
"""Time after its due time at which a message counts as overdue; earlier, its delivery may be in progress."""

_RUN: Final = """
SELECT first.started_wall_us AS store, first.started_us AS first_us, last.*
FROM runs AS first, runs AS last ORDER BY first.run, last.run DESC LIMIT 1"""
_MOVES: Final = "SELECT wall_us, to_us FROM clock_moves WHERE run = {} ORDER BY move"
_NEWEST: Final = (
    "SELECT delivered_offset, delivered_us FROM deliveries ORDER BY delivered_offset DESC LIMIT 1"
)
# Profile rocketmq4 saves delay offsets only every 10 s; ``deliveries`` shows the progress since then.
_WAITING: Final = f"""
WITH lately AS (SELECT * FROM deliveries ORDER BY delivered_offset DESC LIMIT 20000),
 reached AS (SELECT level, max(parked_offset) AS parked FROM lately
  WHERE run = {{run}} AND forced = 0 AND level IS NOT NULL GROUP BY level),
 line AS (SELECT queues.queue_id + 1 AS level, queues.key AS key,
  max(coalesce(delay_offsets.next_offset, 0), coalesce((SELECT queue_offset + 1 FROM messages
   WHERE log_offset = reached.parked AND queue_key = queues.key), 0)) AS low,
  (SELECT max(queue_offset) + 1 FROM messages WHERE queue_key = queues.key) AS high
  FROM queues LEFT JOIN delay_offsets ON delay_offsets.level = queue_id + 1
  LEFT JOIN reached ON reached.level = queue_id + 1 WHERE topic = '{SCHEDULE_TOPIC}')
SELECT level,
 high - low - (SELECT count(*) FROM interventions AS done CROSS JOIN messages
  ON log_offset = done.parked_offset WHERE queue_key = key AND queue_offset >= low) AS pending,
 (SELECT count(*) FROM messages WHERE queue_key = key AND queue_offset >= low
  AND queue_offset < coalesce((SELECT queue_offset FROM messages WHERE queue_key = key AND queue_offset >= low
   AND due_us > {{due_us}} ORDER BY queue_offset LIMIT 1), high)
  AND log_offset NOT IN (SELECT parked_offset FROM interventions)) AS overdue
FROM line WHERE high > low"""


class Backlog(NamedTuple):
    """The number of undelivered messages, and how many of them are overdue."""

    pending: int
    overdue: int


class BrokerStatus(NamedTuple):
    """The status of a store. Instants are microseconds by the broker's clock."""

    store: int  # start of the first run by the wall clock, which identifies the store
    first_us: int  # start of the first run by the broker's clock
    run: int
    version: str
    profile: str
    clock: str
    levels: LevelTable
    moves: int  # number of clock moves in this run
    now_us: int
    newest: int  # number of the latest delivery, -1 if there is none
    is_running: bool
    waiting: dict[int, Backlog]


def broker_status(data: Path) -> BrokerStatus:
    """Read the status of the store in a data directory. Raises StoreError, also before the first run."""
    database = data / FILE_NAME
    with StoreReader(database) as reader:
        reader.check()
        runs = reader.table(_RUN).to_pylist()
        if not runs:
            raise StoreUnreadableError(f"{database} has no runs: no broker was ever started on it")
        run = runs[0]
        moves = reader.table(_MOVES.format(run["run"])).to_pylist()
        newest = reader.table(_NEWEST).to_pylist()
        set_at = (
            (moves[-1]["wall_us"], moves[-1]["to_us"])
            if moves
            else (run["started_wall_us"], run["started_us"])
        )
        now_us = Mark(run["clock"], *set_at).now_us(wall_us())
        if newest:  # during a clock move, deliveries are ahead, because the move is recorded when it ends
            now_us = max(now_us, newest[0]["delivered_us"])
        rows = reader.table(_WAITING.format(run=run["run"], due_us=now_us - GRACE_US)).to_pylist()
    waiting = {row["level"]: Backlog(row["pending"], row["overdue"]) for row in rows}
    timed = _timed(data)
    if timed is not None:
        waiting[NO_LEVEL] = Backlog(len(timed), sum(due_us <= now_us - GRACE_US for due_us in timed))
    return BrokerStatus(
        store=run["store"],
        first_us=run["first_us"],
        run=run["run"],
        version=run["version"],
        profile=run["profile"],
        clock=run["clock"],
        levels=LevelTable.parse(run["levels"]),
        moves=len(moves),
        now_us=now_us,
        newest=newest[0]["delivered_offset"] if newest else -1,
        is_running=is_running(database),
        waiting=waiting,
    )


def _timed(data: Path) -> list[int] | None:
    """Read the absolute due times of pending messages in all schemes; None if no scheme has a folder."""
    folders = [(scheme, data / scheme.folder) for scheme in SCHEMES.values()]
    there = [(scheme, root) for scheme, root in folders if root.is_dir()]
    try:
        due_us = [entry.due_us for scheme, root in there for entry in scheme.pending_entries(root)]
    except OSError as error:
        raise StoreUnavailableError(f"{error.filename or data} cannot be read: {error.strerror}") from error
    return due_us if there else None
