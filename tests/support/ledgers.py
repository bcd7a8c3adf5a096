"""Write synthetic ledgers of any size, as exports or stores. The same seed gives the same ledger.

They look like a busy broker's. Most deliveries are a few hundred microseconds late; now and then a delivery
is late by up to seconds and delays the next deliveries. Herds are due in one second, and some consumers lag.
A few messages are early, delivered twice or by hand, skewed, cancelled or overdue. Some remain pending.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from adbc_driver_sqlite import dbapi as adbc

from mocketmq.clock import US_PER_S
from mocketmq.message.names import SCHEDULE_TOPIC
from mocketmq.schedule.level_table import LevelTable
from mocketmq.store.database import FILE_NAME
from mocketmq.store.tables import SCHEMA
from mocketmq_report.ledger.columns import MOVES
from mocketmq_report.ledger.export import writer_of_deliveries
from tests.support.brokers import rows

LEVELS: Final = LevelTable.parse("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")
START_US: Final = 1_793_491_200 * US_PER_S
"""Start of every ledger, 2026-11-01 00:00 UTC."""
DAY_US: Final = 86_400 * US_PER_S
GROUP_ROWS: Final = 1_000_000
"""Number of rows of a row group, and maximum number that each of two threads holds in memory."""

_STATES: Final = pa.array(["delivered", "pending", "cancelled"])
_DELIVERED, _PENDING, _CANCELLED = range(3)
_ABSOLUTE_DELAY_US: Final = 3 * US_PER_S
_HEX: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)

Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


class Shape(NamedTuple):
    """The shape of a ledger. ``levels`` is the number of levels in use, next to the scheme without levels."""

    rows: int
    days: int = 1
    runs: int = 1
    levels: int = 18
    topics: Sequence[str] = ("orders", "payments", "%RETRY%shop")
    seed: int = 1
    profile: str = "exact"
    version: str = "0.1.0"
    start_us: int = START_US

    @property
    def end_us(self) -> int:
        """The end of the ledger. Messages due later are pending."""
        return self.start_us + self.days * DAY_US

    @property
    def starts_us(self) -> list[int]:
        """The start times of the runs, at equal intervals."""
        return [self.start_us + self.days * DAY_US * n // self.runs for n in range(self.runs)]


class _Part(NamedTuple):
    """Rows of one run that are due on one day, with the number of the first row."""

    run: int
    first: int
    rows: int
    from_us: int
    to_us: int


def run_name(started_us: int) -> str:
    """Return the name of a run, which derives from its start."""
    return datetime.fromtimestamp(started_us / US_PER_S, UTC).strftime("%Y%m%dT%H%M%S.%fZ")


def write_parquet(out: Path, rows: int, **shape: Any) -> Shape:
    """Write an export, and return its shape; keywords are fields of Shape."""
    made = Shape(rows, **shape)
    store = run_name(made.start_us)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda parts: _write_part(out, made, parts), _files(made)))
    (out / "deliveries").mkdir(parents=True, exist_ok=True)
    for name, table in (("runs", _runs(made)), ("moves", _moves(made))):
        (out / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(table, out / name / f"{store}.parquet", compression="zstd")
    return made


def write_store(path: Path, rows: int, **shape: Any) -> Shape:
    """Write a stopped broker's data directory with the same deliveries, and with messages parked in levels.

    It lacks cancelled messages, because a broker keeps no row for them. Returns the shape.
    """
    made = Shape(rows, **shape)
    path.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path / FILE_NAME)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.executescript(SCHEMA)
    connection.execute("PRAGMA synchronous=OFF")
    run_columns = (
        "started_wall_us",
        "started_us",
        "version",
        "host",
        "profile",
        "clock",
        "levels",
        "durability",
    )
    connection.executemany(
        f"INSERT INTO runs (run, {', '.join(run_columns)}) VALUES (?{', ?' * len(run_columns)})",
        [(n, *(row[name] for name in run_columns)) for n, row in enumerate(_runs(made).to_pylist(), start=1)],
    )
    connection.executemany(
        "INSERT INTO clock_moves (run, wall_us, from_us, to_us) VALUES (1, ?, ?, ?)",
        [(row["wall_us"], row["from_us"], row["to_us"]) for row in _moves(made).to_pylist()],
    )
    connection.commit()
    _insert_waiting(connection, _insert_deliveries(path, made))
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return made


def _insert_deliveries(path: Path, made: Shape) -> list[dict[str, Any]]:
    """Insert rows by ADBC, more than twice as fast as row by row, and return the pending rows."""
    names = [row["name"] for row in rows(path, "SELECT name FROM pragma_table_info('deliveries')")]
    waiting: list[dict[str, Any]] = []
    with adbc.connect(str(path / FILE_NAME)) as connection, connection.cursor() as cursor:
        for table, part in _tables(made):
            states = table["state"].to_numpy()
            waiting += table.filter(pa.array(states == "pending")).to_pylist()
            done = table.filter(pa.array(states == "delivered")).rename_columns({"message_id": "unique_key"})
            done = done.append_column("run", pa.array([part.run + 1] * done.num_rows, pa.int64()))
            done = done.append_column("fault", pa.nulls(done.num_rows, pa.string()))
            cursor.adbc_ingest("deliveries", done.select(names), mode="append")
        connection.commit()
    return waiting


def _insert_waiting(connection: sqlite3.Connection, rows: list[dict[str, Any]]) -> None:
    """Insert parked messages behind the delay offsets of the level queues. Others would be in files."""
    topics = [SCHEDULE_TOPIC, *sorted({row["topic"] for row in rows})]
    keys: dict[tuple[str, int], int] = {}
    for topic in topics:
        for queue_id in range(LEVELS.highest if topic == SCHEDULE_TOPIC else 4):
            keys[topic, queue_id] = len(keys) + 1
    connection.executemany(
        "INSERT INTO queues VALUES (?, ?, ?, 0, 0, 0, NULL)", [(key, *queue) for queue, key in keys.items()]
    )
    offsets = dict.fromkeys(range(1, LEVELS.highest + 1), 0)
    for row in rows:
        if row["level"] is None:
            continue
        connection.execute(
            "INSERT INTO messages VALUES (?, ?, ?, ?, ?, '127.0.0.1:1', '127.0.0.1:10911', 0, 0, ?, '', 0, ?,"
            " ?, ?, ?, NULL, NULL, NULL, 'parked')",
            (
                row["parked_offset"],
                keys[SCHEDULE_TOPIC, row["level"] - 1],
                offsets[row["level"]],
                row["stored_us"],
                row["born_us"],
                b"." * row["size"],
                row["attempt"] - 1,
                row["message_id"],
                row["due_us"],
                keys[row["topic"], row["queue_id"]],
            ),
        )
        offsets[row["level"]] += 1
    connection.executemany("INSERT INTO delay_offsets VALUES (?, 0)", [(level,) for level in offsets])


def _runs(shape: Shape) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "run": run_name(start_us),
                "store": run_name(shape.start_us),
                "source": "synthetic",
                "version": shape.version,
                "host": "synthetic",
                "profile": shape.profile,
                "clock": "real",
                "levels": LEVELS.text,
                "durability": "full",
                "started_wall_us": start_us,
                "started_us": start_us,
                "as_of_us": shape.end_us,
            }
            for start_us in shape.starts_us
        ]
    )


def _moves(_shape: Shape) -> pa.Table:
    return MOVES.empty_table()


def _write_part(out: Path, shape: Shape, parts: list[_Part]) -> None:
    day = datetime.fromtimestamp(parts[0].from_us / US_PER_S, UTC).date()
    folder = out / "deliveries" / f"day={day}" / f"run={run_name(shape.starts_us[parts[0].run])}"
    folder.mkdir(parents=True, exist_ok=True)
    writer: pq.ParquetWriter | None = None
    for part in parts:
        table = _table(shape, part)
        writer = writer or writer_of_deliveries(folder / "part-0.parquet", table.schema)
        writer.write_table(table, row_group_size=GROUP_ROWS)
    if writer:
        writer.close()


def _tables(shape: Shape) -> Iterator[tuple[pa.Table, _Part]]:
    for parts in _files(shape):
        for part in parts:
            yield _table(shape, part), part


def _files(shape: Shape) -> list[list[_Part]]:
    """Return the parts of each run and day, of at most GROUP_ROWS rows. The last has the pending messages."""
    days_us = [shape.start_us + n * DAY_US for n in range(shape.days + 1)]
    edges_us = sorted({*shape.starts_us, *days_us})
    waiting = shape.rows // 500
    gone = shape.rows - waiting
    parts = []
    for from_us, to_us in pairwise(edges_us):
        run = sum(start_us <= from_us for start_us in shape.starts_us) - 1
        first, last = (gone * (us - shape.start_us) // (shape.days * DAY_US) for us in (from_us, to_us))
        for low in range(first, last, GROUP_ROWS):
            high = min(low + GROUP_ROWS, last)
            low_us, high_us = (
                from_us + (to_us - from_us) * (n - first) // (last - first) for n in (low, high)
            )
            parts.append(_Part(run, low, high - low, low_us, high_us))
    if waiting:
        parts.append(_Part(shape.runs - 1, gone, waiting, shape.end_us, shape.end_us + 2 * 3_600 * US_PER_S))
    grouped = groupby(parts, lambda part: (part.run, (part.from_us - shape.start_us) // DAY_US))
    return [list(group) for _, group in grouped]


def _table(shape: Shape, part: _Part) -> pa.Table:
    """Return the rows of a part in delivery order."""
    random = np.random.default_rng((shape.seed, part.first))
    n = part.rows
    number = np.arange(part.first, part.first + n, dtype=np.int64)
    due = _due(random, part)
    delivered = np.maximum.accumulate(due + _lateness(random, due))
    level = random.integers(0, shape.levels + 1, n)
    delays = np.array([_ABSOLUTE_DELAY_US, *LEVELS.delays_us], np.int64)[level]
    state = np.full(n, _DELIVERED)
    if part.from_us >= shape.end_us:
        state[:] = _PENDING
        level = np.maximum(level, 1)
        stored = np.minimum(due - delays, shape.end_us - random.integers(0, US_PER_S, n))
    else:
        stored = due - delays
        state[_some(random, part, 50_000)] = _PENDING
        state[_some(random, part, 10_000)] = _CANCELLED
    born = stored - random.integers(0, 20_000, n)
    born[_some(random, part, 5_000)] += 3_000_000
    forced = _some(random, part, 20_000)
    delivered[forced] = stored[forced] + (due - stored)[forced] // 2
    early = _some(random, part, 100_000)
    delivered[early] = due[early] - random.integers(1, 400, n)[early]
    behind = random.random(n) < 0.05
    waits = random.exponential(np.where(behind, 20e6, 2_000), n)
    pulled = delivered + waits.astype(np.int64) + 100
    acked = pulled + random.exponential(8_000, n).astype(np.int64) + 50
    columns = {"due_us": due, "stored_us": stored, "born_us": born, "level": level, "parked": number * 2}
    repeats = np.flatnonzero(_some(random, part, 10_000) & (state == _DELIVERED))
    repeats = repeats[(repeats > 0) & (state[repeats - 1] == _DELIVERED)]
    number[repeats] = number[repeats - 1]
    topic = random.integers(0, len(shape.topics), n)
    for values in (topic, *columns.values()):
        values[repeats] = values[repeats - 1]
    picked = np.where(forced, delivered, np.minimum(np.maximum(due, delivered - 40), delivered))
    gone = state != _DELIVERED
    retries = np.array([name.startswith("%RETRY%") for name in shape.topics])[topic]
    unpulled = gone | (random.random(n) < 0.01)
    unacked = unpulled | (random.random(n) < 0.01)
    return pa.table(
        {
            "state": _STATES.take(pa.array(state)),
            "message_id": _ids(number),
            "parked_offset": columns["parked"],
            "delivered_offset": pa.array(np.arange(part.first, part.first + n) * 2 + 1, mask=gone),
            "topic": pa.array(shape.topics).take(pa.array(topic)),
            "queue_id": random.integers(0, 4, n).astype(np.int32),
            "queue_offset": pa.array(np.arange(part.first, part.first + n), mask=gone),
            "scheme": pa.array(["levels", "directories"]).take(pa.array((level == 0).astype(np.int8))),
            "level": pa.array(level.astype(np.int32), mask=level == 0),
            "attempt": np.where(retries, 1 + random.integers(1, 4, n), 1).astype(np.int32),
            "size": random.integers(100, 2_000, n).astype(np.int32),
            "forced": forced & ~gone,
            "born_us": born,
            "stored_us": stored,
            "due_us": due,
            "picked_us": pa.array(picked, mask=gone),
            "delivered_us": pa.array(delivered, mask=gone),
            "pulled_us": pa.array(pulled, mask=unpulled),
            "pulled_by": pa.array(["shop", "audit"]).take(pa.array(behind.astype(np.int8), mask=unpulled)),
            "acked_us": pa.array(acked, mask=unacked),
        }
    )


def _due(random: np.random.Generator, part: _Part) -> Ints:
    """Return due times in order. A tenth of them form herds at whole minutes."""
    due = random.integers(part.from_us, part.to_us, part.rows)
    minute = 60 * US_PER_S
    herd = random.random(part.rows) < 0.1
    due[herd] = np.maximum(due[herd] // minute * minute, part.from_us)
    due.sort()
    return due


def _lateness(random: np.random.Generator, due: Ints) -> Ints:
    """Return lateness: a few hundred microseconds, occasional stalls, and a share by position in a herd."""
    late = random.lognormal(np.log(300), 0.6, len(due))
    late += np.where(random.random(len(due)) < 0.0005, (random.pareto(1.0, len(due)) * 2_000).clip(0, 4e6), 0)
    places = np.arange(len(due))
    is_first = np.diff(due, prepend=-1) != 0
    places -= np.maximum.accumulate(np.where(is_first, places, 0))
    return (late + places * 15).astype(np.int64)


def _some(random: np.random.Generator, part: _Part, of: int) -> Bools:
    """Pick about one in ``of`` rows, or one in fifty in a small ledger."""
    return random.random(part.rows) < (1 / of if part.first + part.rows > 10_000 else 1 / 50)


def _ids(numbers: Ints) -> pa.Array:
    """Return UNIQ_KEYs of 32 hexadecimal digits."""
    width = 32
    text = np.empty((len(numbers), width), np.uint8)
    text[:] = np.frombuffer(b"DF543ED11F2E1A1FB840DF1000000000", np.uint8)
    for place in range(12):
        text[:, width - 1 - place] = _HEX[(numbers >> (4 * place)) & 15]
    offsets = np.arange(0, (len(numbers) + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(text))
