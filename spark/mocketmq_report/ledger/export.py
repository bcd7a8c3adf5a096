"""Writes a store as Parquet, which any machine can read: ``mocketmq export``. Needs neither Spark nor Java.

::

    <out>/deliveries/day=2026-11-21/run=20261121T003136.123456Z/part-00000.parquet
    <out>/runs/<store>.parquet
    <out>/moves/<store>.parquet
    <out>/faults/<store>.parquet     if faults were injected into requests of consumers

A row's day is the UTC day of its due time; the name of a store is its first run. Several stores may share one
folder. The export writes a store's files below ``<out>/.<store>.part``, where no reader looks, and then moves
them over the files of an earlier export. The export removes the store's file in ``runs`` first, and writes
this file last. After a kill in between, the folder has deliveries of unknown runs until the export is
repeated.
"""

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mocketmq.clock import US_PER_S
from mocketmq.errors import StoreUnavailableError
from mocketmq_report.ledger import columns
from mocketmq_report.ledger.store_snapshot import StoreSnapshot, read, take_snapshot
from mocketmq_report.progress import ProgressCallback

DELIVERIES: Final = "deliveries"
RUNS: Final = "runs"
MOVES: Final = "moves"
FAULTS: Final = "faults"
GROUP_ROWS: Final = 1_000_000
"""Number of rows in a row group, and maximum number of buffered rows."""
OPEN_FILES: Final = 64
_COLUMNS: Final = [name for name in columns.DELIVERIES.names if name != "run"]
_DAY_US: Final = 86_400 * US_PER_S
_EPOCH: Final = date(1970, 1, 1)
_LAST_DAY: Final = (date.max - _EPOCH).days
"""The last day that has a folder name. Messages due later are written to this day's folder."""


class Exported(NamedTuple):
    """The size of an export."""

    rows: int  # of deliveries
    runs: int
    bytes: int  # size of all files
    files: int


def export(source: Path, out: Path, progress: ProgressCallback) -> Exported:
    """Write the store of a data directory, or of a database file, into the folder ``out``.

    Raises StoreError if the store is unreadable or the folder is not writable.
    """
    store = take_snapshot(source, progress)
    staging = out / f".{store.name}.part"
    try:
        shutil.rmtree(staging, ignore_errors=True)
        rows = _write(store, staging, progress)
        sizes = [path.stat().st_size for path in staging.rglob("*.parquet")]
        _move(store, staging, out)
    except OSError as error:
        raise StoreUnavailableError(
            f"{error.filename or out} cannot be written: {error.strerror or error}"
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return Exported(rows, store.runs.num_rows, sum(sizes), len(sizes))


def _write(store: StoreSnapshot, staging: Path, progress: ProgressCallback) -> int:
    """Write all files below ``staging``, and return the number of deliveries."""
    total = store.deliveries + store.undelivered.num_rows
    rows = 0
    with _DeliveryFiles(staging / DELIVERIES) as parts:
        for batch in _batches(store):
            progress("exporting deliveries", rows, total)
            parts.add(batch)
            rows += batch.num_rows
    for name, table in ((RUNS, store.runs), (MOVES, store.moves), (FAULTS, store.struck)):
        (staging / name).mkdir(parents=True)
        if table.num_rows or name != FAULTS:
            pq.write_table(table, staging / name / f"{store.name}.parquet", compression="zstd")
    return rows


def _batches(store: StoreSnapshot) -> Iterator[pa.RecordBatch]:
    for span in store.ranges:
        yield from read(store.database, store.names, span)
    yield from store.undelivered.to_batches()


def _move(store: StoreSnapshot, staging: Path, out: Path) -> None:
    """Move the files over the files of an earlier export."""
    file = f"{store.name}.parquet"
    for name in (DELIVERIES, RUNS, MOVES):
        (out / name).mkdir(exist_ok=True)
    for name in (RUNS, FAULTS):
        (out / name / file).unlink(missing_ok=True)
    for day in (out / DELIVERIES).glob("day=*"):
        for run in store.names.values():
            shutil.rmtree(day / f"run={run}", ignore_errors=True)
        with suppress(OSError):  # not empty if other stores have deliveries of that day
            day.rmdir()
    for folder in (staging / DELIVERIES).glob("day=*/run=*"):
        target = out / folder.relative_to(staging)
        target.parent.mkdir(exist_ok=True)
        folder.rename(target)
    for name in (FAULTS, MOVES, RUNS):
        if (staging / name / file).exists():
            (out / name).mkdir(exist_ok=True)
            (staging / name / file).replace(out / name / file)


def writer_of_deliveries(file: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Make a Parquet writer with fast encodings: deltas for long numbers, dictionaries for other columns.

    Ids are not encoded.
    """
    long = [field.name for field in schema if field.type == pa.int64()]
    return pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        use_dictionary=[name for name in schema.names if name not in ("message_id", *long)],
        column_encoding=dict.fromkeys(long, "DELTA_BINARY_PACKED"),
        write_page_checksum=True,
    )


class _DeliveryFiles:
    """Writes the files of the deliveries, and buffers rows until they fill a row group."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._waiting: dict[Path, list[pa.RecordBatch]] = {}  # buffered rows by folder
        self._rows: Counter[Path] = Counter()  # counts of buffered rows by folder
        self._writers: dict[Path, pq.ParquetWriter] = {}  # the least recently used first
        self._files: Counter[Path] = Counter()  # number of files begun in each folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _where: object) -> None:
        for folder in [] if error else list(self._waiting):
            self._flush(folder)
        for writer in self._writers.values():
            writer.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Buffer these rows, and write the fullest folders once too many are buffered."""
        for folder, rows in self._split(batch):
            self._waiting.setdefault(folder, []).append(rows.select(_COLUMNS))
            self._rows[folder] += rows.num_rows
        while self._rows.total() >= GROUP_ROWS:
            [(folder, _)] = self._rows.most_common(1)
            self._flush(folder)

    def _split(self, batch: pa.RecordBatch) -> Iterator[tuple[Path, pa.RecordBatch]]:
        """Split the rows by folder: by due day and run."""
        runs = batch["run"].dictionary_encode()
        days = batch["due_us"].to_numpy() // _DAY_US
        for day in np.unique(days):
            for number, run in enumerate(runs.dictionary.to_pylist()):
                rows = batch.filter(pa.array((days == day) & (runs.indices.to_numpy() == number)))
                if rows.num_rows:
                    date_ = _EPOCH + timedelta(days=min(int(day), _LAST_DAY))
                    yield self._root / f"day={date_}" / f"run={run}", rows

    def _flush(self, folder: Path) -> None:
        table = pa.Table.from_batches(self._waiting.pop(folder))
        del self._rows[folder]
        writer = self._writers.pop(folder, None) or self._begin(folder, table.schema)
        self._writers[folder] = writer
        writer.write_table(table, row_group_size=GROUP_ROWS)

    def _begin(self, folder: Path, schema: pa.Schema) -> pq.ParquetWriter:
        if len(self._writers) == OPEN_FILES:
            self._writers.pop(next(iter(self._writers))).close()
        folder.mkdir(parents=True, exist_ok=True)
        number = self._files[folder]
        self._files[folder] += 1
        return writer_of_deliveries(folder / f"part-{number:05}.parquet", schema)
