"""A ledger: its rows in parts, its runs, its clock moves, and the requests that faults hit.

A part is a set of rows that one task can read anywhere, independently of other parts.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mocketmq.errors import EmulatorError
from mocketmq_report.ledger.columns import STRUCK
from mocketmq_report.ledger.conditions import RowCondition

if TYPE_CHECKING:
    from mocketmq_report.ledger.store_snapshot import OffsetRange

_MOST_ROWS: Final = 1 << 20
"""Maximum number of rows in memory at a time."""


class DamagedPartError(EmulatorError):
    """Raised for unreadable rows; the sentence names their file."""


class Extent(NamedTuple):
    """The number of rows, and the first and the last delivery time, which are 0 without deliveries."""

    rows: int
    delivered_from_us: int
    delivered_to_us: int


class Columns(NamedTuple):
    """Columns to read."""

    needed: Sequence[str]
    in_doubt: Sequence[str]  # read only if a row may lack an id or a parked offset


class LedgerPart(Protocol):
    """A part of the ledger that one task reads."""

    def batches(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        """Read at least these columns. Each call yields the same batches."""
        ...


class RowGroups(NamedTuple):
    """Row groups of a Parquet file that ``mocketmq export`` wrote."""

    path: str
    run: str
    groups: tuple[int, ...]
    rows: int
    is_doubtful: bool  # whether a row may lack an id or a parked offset
    delivered_us: tuple[int, int]  # of the first and the last delivery; 0 if unknown

    @property
    def extent(self) -> Extent:
        """The number of rows, and their delivery times."""
        return Extent(self.rows, *self.delivered_us)

    def narrowed(self, where: Sequence[RowCondition]) -> "RowGroups | None":
        """Leave out groups without a matching row, by the file's footer; None if no group remains."""
        metadata = pq.read_metadata(self.path)
        names = metadata.schema.to_arrow_schema().names
        known = [condition for condition in where if condition.column in names]
        groups = tuple(
            number
            for number in self.groups
            if all(
                each.may_match(metadata.row_group(number).column(names.index(each.column)).statistics)
                for each in known
            )
        )
        return self._replace(groups=groups) if groups else None

    def batches(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        """Read these columns. Raises DamagedPartError."""
        wanted = [*columns.needed, *(columns.in_doubt if self.is_doubtful else ())]
        try:
            with pq.ParquetFile(
                self.path,
                read_dictionary=["state", "topic", "scheme", "pulled_by"],
                memory_map=True,
                page_checksum_verification=True,
            ) as file:
                names = [name for name in wanted if name in file.schema_arrow.names]
                for batch in _batches(file, self.groups, names):
                    run = pa.DictionaryArray.from_arrays(
                        pa.repeat(pa.scalar(0, pa.int32()), len(batch)), [self.run]
                    )
                    yield pa.RecordBatch.from_arrays([*batch.columns, run], [*batch.schema.names, "run"])
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise DamagedPartError(
                f"{self.path} is damaged ({reason}): export it again, or report without it"
            ) from error


def _batches(file: pq.ParquetFile, groups: Sequence[int], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of groups. Reads a group of moderate size at once, which takes half the time."""
    for group in groups:
        if file.metadata.row_group(group).num_rows <= _MOST_ROWS:
            yield from file.read_row_group(group, names, use_threads=False).to_batches()
        else:
            yield from file.iter_batches(_MOST_ROWS, row_groups=[group], columns=names, use_threads=False)


class StoreRange(NamedTuple):
    """A part with deliveries of a store."""

    database: str
    names: dict[int, str]  # names of runs, by number
    span: "OffsetRange"
    rows: int
    where: tuple[RowCondition, ...] = ()

    def narrowed(self, where: Sequence[RowCondition]) -> "StoreRange":
        """Leave out deliveries that SQLite finds not to match."""
        return self._replace(where=(*self.where, *where))

    def batches(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        # Importing ADBC takes long, and executors that read exports may lack it.
        from mocketmq_report.ledger.store_snapshot import read  # noqa: PLC0415

        wanted = [*columns.needed, *columns.in_doubt]
        return read(Path(self.database), self.names, self.span, wanted, self.where)


class Loaded(NamedTuple):
    """A part whose rows are in memory."""

    table: pa.Table

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    def batches(self, columns: Columns) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - it has all of them
        yield from self.table.to_batches()


class WithoutRuns(NamedTuple):
    """A part without the rows of some runs."""

    part: LedgerPart
    runs: frozenset[str]

    def batches(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        gone = pa.array(self.runs, pa.string())
        for batch in self.part.batches(columns):
            yield batch.filter(pc.invert(pc.is_in(batch["run"], gone)))


def narrowed(part: LedgerPart, where: Sequence[RowCondition]) -> LedgerPart | None:
    """Leave out rows that a cheap check excludes, though others may not match either; None without rows."""
    if not where:
        return part
    if isinstance(part, WithoutRuns):
        inner = narrowed(part.part, where)
        return None if inner is None else part._replace(part=inner)
    return part.narrowed(where) if isinstance(part, RowGroups | StoreRange) else part


def row_groups(path: str, run: str, metadata: pq.FileMetaData, most: int) -> Iterator[RowGroups]:
    """Divide a Parquet file into parts of about ``most`` rows."""
    names = metadata.schema.to_arrow_schema().names
    groups: list[pq.RowGroupMetaData] = []
    first = 0
    for number in range(metadata.num_row_groups):
        groups.append(metadata.row_group(number))
        if sum(group.num_rows for group in groups) >= most or number == metadata.num_row_groups - 1:
            yield _joined(path, run, groups, first, names)
            groups, first = [], number + 1


def _joined(
    path: str, run: str, groups: Sequence[pq.RowGroupMetaData], first: int, names: Sequence[str]
) -> RowGroups:
    def statistics(name: str) -> Iterator[pq.Statistics | None]:
        return (group.column(names.index(name)).statistics for group in groups)

    times = [each for each in statistics("delivered_us") if each is not None and each.has_min_max]
    return RowGroups(
        path,
        run,
        tuple(range(first, first + len(groups))),
        sum(group.num_rows for group in groups),
        any(_may_lack(each) for name in ("message_id", "parked_offset") for each in statistics(name)),
        (min((each.min for each in times), default=0), max((each.max for each in times), default=0)),
    )


def _may_lack(statistics: pq.Statistics | None) -> bool:
    """Return whether a column may have missing or empty values."""
    return (
        statistics is None
        or not statistics.has_null_count
        or statistics.null_count > 0
        or not statistics.has_min_max
        or statistics.min in ("", b"")
    )


class Ledger(NamedTuple):
    """A ledger read from one source or many."""

    parts: list[LedgerPart]
    runs: pa.Table
    moves: pa.Table
    extent: Extent  # as estimated before the rows are read
    struck: pa.Table = STRUCK.empty_table()  # consumers' requests into which faults were injected


class BrokenLedgerError(EmulatorError):
    """A file or directory is not a readable ledger. The message says why, and what a ledger is."""
