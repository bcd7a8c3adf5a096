"""Read the status of a broker's store: its run, its time, and its backlog by level.

This is cheap enough for every second: it reads the newest rows, what is overdue, and the names of the files
in the delay directory.
"""

from pathlib import Path
from typing import Final, NamedTuple

from mocketmq.clock import US_PER_S, Mark, wall_us
from mocketmq.errors import StoreUnavailableError, StoreUnreadableError
from mocketmq.message.names import SCHEDULE_TOPIC
from mocketmq.schedule.level_table import LevelTable
from mocketmq.store.database import FILE_NAME
from mocketmq_compat.delay.directories.delay_directory import FOLDER
from mocketmq_compat.delay.directories.delay_inspection import list_files
from mocketmq_report.ledger.store_reader import StoreReader, is_running
from mocketmq_report.progress import ignore_progress

NO_LEVEL: Final = 0
"""Stands for the level of messages with an absolute due time."""
GRACE_US: Final = US_PER_S
"""How long after its due time a message counts as overdue: until then it may be on its way."""

_RUN: Final = """
SELECT first.started_wall_us AS store, first.started_us AS first_us, last.*
FROM runs AS first, runs AS last ORDER BY first.run, last.run DESC LIMIT 1"""
_MOVES: Final = "SELECT wall_us, to_us FROM clock_moves WHERE run = {} ORDER BY move"
_NEWEST: Final = (
    "SELECT delivered_offset, delivered_us FROM deliveries ORDER BY delivered_offset DESC LIMIT 1"
)
# Profile rocketmq4 saves its delay offsets each 10 s; later deliveries are found in ``deliveries``.
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
    """Undelivered messages, and how many of them are overdue."""

    pending: int
    overdue: int


class BrokerStatus(NamedTuple):
    """The status of a store. Instants are microseconds by the broker's clock."""

    store: int  # when its first run started, by the wall clock; differs in another store
    first_us: int  # the same by the broker's clock
    run: int
    version: str
    profile: str
    clock: str
    levels: LevelTable
    moves: int  # of the clock, in this run
    now_us: int
    newest: int  # number of the latest delivery, -1 if there is none
    is_running: bool
    waiting: dict[int, Backlog]


def broker_status(data: Path) -> BrokerStatus:
    """Read the status of the store in a data directory. Raises StoreError, also before its first run."""
    database = data / FILE_NAME
    with StoreReader(database) as reader:
        reader.check()
        runs = reader.table(_RUN).to_pylist()
        if not runs:
            raise StoreUnreadableError(f"{database} has no run of a broker: none was ever started on it")
        run = runs[0]
        moves = reader.table(_MOVES.format(run["run"])).to_pylist()
        newest = reader.table(_NEWEST).to_pylist()
        set_at = (
            (moves[-1]["wall_us"], moves[-1]["to_us"])
            if moves
            else (run["started_wall_us"], run["started_us"])
        )
        now_us = Mark(run["clock"], *set_at).now_us(wall_us())
        if newest:  # a move is recorded at its end
            now_us = max(now_us, newest[0]["delivered_us"])
        rows = reader.table(_WAITING.format(run=run["run"], due_us=now_us - GRACE_US)).to_pylist()
    waiting = {row["level"]: Backlog(row["pending"], row["overdue"]) for row in rows}
    if (data / FOLDER).is_dir():
        waiting[NO_LEVEL] = _files(data / FOLDER, now_us - GRACE_US)
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


def _files(root: Path, due_us: int) -> Backlog:
    """The backlog of the files, by their names alone."""
    try:
        entries = [place.entry for place in list_files(root, ignore_progress).places]
    except OSError as error:
        raise StoreUnavailableError(f"{root} cannot be read: {error.strerror}") from error
    due = [entry.due_us for entry in entries if entry is not None]
    return Backlog(len(due), sum(us <= due_us for us in due))
