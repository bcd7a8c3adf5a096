"""Takes a snapshot of a broker's store as a ledger, for ``export`` and ``sources``.

A snapshot first reads the files of delayed messages, then the database in one transaction. So a message
delivered in the meantime counts as either delivered or pending, never as both or neither. Rows added later
are left out, but later actions of consumers on older messages may be included.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from mocketmq.clock import Mark, wall_us
from mocketmq.errors import StoreUnreadableError
from mocketmq.store.database import FILE_NAME
from mocketmq_report.ledger.columns import DELIVERIES, EVERY_REQUEST, MOVES, OPTIONAL, RUNS, STRUCK, as_rows
from mocketmq_report.ledger.conditions import RowCondition
from mocketmq_report.ledger.store_reader import StoreReader, is_running
from mocketmq_report.ledger.undelivered import UndeliveredOffsets, broker_of_queue, undelivered
from mocketmq_report.ledger.waiting_files import waiting_files
from mocketmq_report.progress import ProgressCallback

RANGE_ROWS: Final = 500_000
"""Number of rows in a range, which a task reads in about a second."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TEXTS: Final = {"pulled_by", "fault"}
_IN_STORE: Final = {"message_id": "unique_key", **{name: f"coalesce({name}, '')" for name in _TEXTS}}
"""SQL expressions for ledger columns that the table ``deliveries`` stores in another form."""
_DELIVERIES: Final = (
    "SELECT {} FROM deliveries WHERE delivered_offset BETWEEN {} AND {}{} ORDER BY delivered_offset"
)
_LAST_US: Final = """
SELECT max(us) AS us FROM (
 SELECT max(started_us) AS us FROM runs UNION ALL SELECT max(to_us) FROM clock_moves
 UNION ALL SELECT max(at_us) FROM interventions
 UNION ALL SELECT store_us FROM messages WHERE log_offset = (SELECT max(log_offset) FROM messages)
 UNION ALL SELECT delivered_us FROM deliveries
  WHERE delivered_offset = (SELECT max(delivered_offset) FROM deliveries))"""
_FIRST_AND_LAST: Final = """
SELECT (SELECT delivered_us FROM deliveries ORDER BY delivered_offset LIMIT 1) AS first_us,
 (SELECT delivered_us FROM deliveries ORDER BY delivered_offset DESC LIMIT 1) AS last_us"""
_LAST_MARK: Final = """
SELECT clock, coalesce(wall_us, started_wall_us) AS wall_us, coalesce(to_us, started_us) AS at_us
FROM runs LEFT JOIN clock_moves USING (run) ORDER BY run DESC, move DESC LIMIT 1"""

_STRUCK: Final = f"""
SELECT at_us, to_us, fault, do, operation, coalesce(topic, '') AS topic, coalesce(group_name, '') AS "group"
FROM fault_hits WHERE operation IN ('receive', 'ack', '{EVERY_REQUEST}') ORDER BY to_us IS NULL, rowid"""


class OffsetRange(NamedTuple):
    """The deliveries of one part, by their first and last offset."""

    first: int
    last: int


class StoreSnapshot(NamedTuple):
    """A store at one moment. Its deliveries are read later, by ``ranges``."""

    database: Path
    names: dict[int, str]  # names of runs, by number
    runs: pa.Table
    moves: pa.Table
    struck: pa.Table
    deliveries: int
    delivered_us: tuple[int, int]  # of the first and the last delivery; 0 without deliveries
    ranges: list[OffsetRange]  # ranges of deliveries
    undelivered: pa.Table

    @property
    def rows_of_ranges(self) -> list[int]:
        return [min(RANGE_ROWS, self.deliveries - first) for first in range(0, self.deliveries, RANGE_ROWS)]

    @property
    def name(self) -> str:
        """The name of the store, which is its first run."""
        return self.names[min(self.names)]


def take_snapshot(path: Path, progress: ProgressCallback, as_of_us: int | None = None) -> StoreSnapshot:
    """Take a snapshot of a data directory, or of a database file. The broker may be running.

    Undelivered messages due by ``as_of_us`` are overdue; the default is now by the clock of a running broker,
    otherwise the latest stored instant. Raises StoreError with a sentence that names the file.
    """
    database = path / FILE_NAME if path.is_dir() else path
    if path.is_dir() and not database.exists():
        raise StoreUnreadableError(f"{path} is not a data directory: there is no {FILE_NAME} in it")
    data = database.parent if database.name == FILE_NAME else None  # None for a bare copy
    files = waiting_files(data, progress) if data else []
    with StoreReader(database) as reader:
        reader.check()
        found = reader.table("SELECT * FROM runs ORDER BY run")
        if not found.num_rows:
            raise StoreUnreadableError(f"{database} has no runs: no broker was ever started on it")
        names = run_names(found)
        as_of_us = (
            as_of_us if as_of_us is not None else _as_of_us(reader, data is not None and is_running(database))
        )
        runs = as_rows(
            RUNS,
            {name: found[name] for name in found.column_names}
            | {
                "run": pa.array(names.values()),
                "store": pa.scalar(names[min(names)]),
                "source": pa.scalar(str(path)),
                "as_of_us": pa.scalar(as_of_us),
            },
            found.num_rows,
        )
        moved = reader.table("SELECT run, wall_us, from_us, to_us FROM clock_moves ORDER BY move")
        moves = as_rows(
            MOVES,
            {name: moved[name] for name in MOVES.names} | {"run": _named(database, moved["run"], names)},
            moved.num_rows,
        )
        parked = UndeliveredOffsets(reader)
        deliveries, ranges = _count_deliveries(reader, parked, progress)
        [times] = reader.table(_FIRST_AND_LAST).to_pylist()
        return StoreSnapshot(
            database,
            names,
            runs,
            moves,
            _struck(reader, names[min(names)]),
            deliveries,
            (times["first_us"] or 0, times["last_us"] or 0),
            ranges,
            undelivered(reader, parked, files, runs, brokers_of_runs(reader).get(max(names), ())),
        )


def run_names(runs: pa.Table) -> dict[int, str]:
    """Return the name of each run of a store, by its number."""
    return dict(zip(runs["run"].to_pylist(), map(_name, runs["started_wall_us"].to_pylist()), strict=True))


def read(
    database: Path,
    names: dict[int, str],
    span: OffsetRange,
    wanted: Sequence[str] = DELIVERIES.names,
    where: Sequence[RowCondition] = (),
) -> Iterator[pa.RecordBatch]:
    """Read some columns of the deliveries of a range, in order. Raises StoreError.

    Leaves out deliveries that SQLite finds not to match ``where``.
    """
    clauses = "".join(f" AND {sql}" for each in where if (sql := each.in_sqlite()))
    schema = pa.schema([DELIVERIES.field(name) for name in wanted])
    with StoreReader(database) as reader:
        known = reader.table("SELECT name FROM pragma_table_info('deliveries')")["name"].to_pylist()
        lacking = {"state", *OPTIONAL}.difference(known)
        found = [name for name in wanted if name not in lacking]
        brokers = brokers_of_runs(reader) if "broker" in wanted else {}
        if brokers:
            found = [*dict.fromkeys((*found, "run", "queue_id"))]
        selected = ", ".join(f"{_IN_STORE.get(name, name)} AS {name}" for name in found)
        for batch in reader.batches(_DELIVERIES.format(selected, *span, clauses)):
            if not batch.num_rows:
                continue  # ADBC does not know its types
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            columns["state"] = pa.scalar("delivered")
            if brokers:
                columns["broker"] = _brokers(batch["run"], batch["queue_id"], brokers)
            if "run" in columns:
                columns["run"] = _named(database, batch["run"], names)
            if "forced" in columns:
                columns["forced"] = pc.not_equal(batch["forced"], 0)
            for name in _TEXTS.intersection(columns):
                columns[name] = pc.if_else(pc.equal(batch[name], ""), None, batch[name])
            yield from as_rows(schema, columns, batch.num_rows).to_batches()


def brokers_of_runs(reader: StoreReader) -> dict[int, list[str]]:
    """Return the names of the brokers of each run that had several, by its number."""
    known = reader.table("SELECT name FROM pragma_table_info('runs')")["name"].to_pylist()
    if "brokers" not in known:
        return {}
    runs = reader.table("SELECT run, brokers FROM runs").to_pylist()
    return {each["run"]: each["brokers"].split(",") for each in runs if each["brokers"]}


def _brokers(runs: pa.Array, queue_ids: pa.Array, brokers: Mapping[int, Sequence[str]]) -> pa.Array:
    found = pa.nulls(len(runs), pa.string())
    for run, names in brokers.items():
        found = pc.if_else(pc.equal(runs, run), broker_of_queue(queue_ids, names), found)
    return found


def _struck(reader: StoreReader, store: str) -> pa.Table:
    """Read the requests of consumers that faults hit."""
    known = reader.table("SELECT name FROM pragma_table_info('fault_hits')")["name"].to_pylist()
    if "to_us" not in known:
        return STRUCK.empty_table()
    found = reader.table(_STRUCK)
    if not found.num_rows:  # ADBC does not know the types of an empty result
        return STRUCK.empty_table()
    columns = {name: found[name] for name in found.column_names} | {"store": pa.scalar(store)}
    for name in ("topic", "group"):
        columns[name] = pc.if_else(pc.equal(found[name], ""), None, found[name])
    return as_rows(STRUCK, columns, found.num_rows)


def _count_deliveries(
    reader: StoreReader, parked: UndeliveredOffsets, progress: ProgressCallback
) -> tuple[int, list[OffsetRange]]:
    """Count the deliveries and divide them into ranges; mark each in ``parked``."""
    rows, firsts, last = 0, list[int](), 0
    for batch in reader.batches(
        "SELECT delivered_offset, parked_offset FROM deliveries ORDER BY delivered_offset"
    ):
        offsets = batch["delivered_offset"]
        firsts += offsets[-rows % RANGE_ROWS :: RANGE_ROWS].to_pylist()
        rows += batch.num_rows
        last = offsets[-1].as_py()
        parked.mark_delivered(batch["parked_offset"].to_numpy())
        progress("looking at deliveries", rows, None)
    lasts = [*(first - 1 for first in firsts[1:]), last]
    return rows, [
        OffsetRange(*each) for each in zip(firsts, lasts, strict=False)
    ]  # without deliveries, ``lasts`` has one entry too many


def _name(started_wall_us: int) -> str:
    return (_EPOCH + timedelta(microseconds=started_wall_us)).strftime("%Y%m%dT%H%M%S.%fZ")


def _named(
    database: Path, numbers: pa.Array | pa.ChunkedArray, names: dict[int, str]
) -> pa.Array | pa.ChunkedArray:
    places = pc.index_in(numbers, pa.array(names.keys()))
    if places.null_count:
        raise StoreUnreadableError(
            f"{database} is damaged: it has rows of a run that is not among its runs; restore it from a copy"
        )
    return pa.array(names.values()).take(places)


def _as_of_us(reader: StoreReader, is_running: bool) -> int:
    last_us: int = reader.table(_LAST_US)["us"][0].as_py()
    if not is_running:
        return last_us
    [mark] = reader.table(_LAST_MARK).to_pylist()
    return max(last_us, Mark(mark["clock"], mark["wall_us"], mark["at_us"]).now_us(wall_us()))
