"""Reads external files in parts, which are ranges of a text's lines, or row groups of Parquet.

Texts are read in blocks of whole lines. A row of a CSV file is a line, so a damaged row, such as one with an
open quote, does not damage its neighbours.
"""

import csv
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from mocketmq_report.ledger.external_files import WRONG, ExternalFile
from mocketmq_report.ledger.external_values import TYPES, rows
from mocketmq_report.ledger.ledger import Columns
from mocketmq_report.ledger.places import PACKINGS, opened

_PART_BYTES: Final = 64 << 20
_BLOCK_BYTES: Final = 8 << 20
_BATCH_ROWS: Final = 262_144
_BOM: Final = b"\xef\xbb\xbf"

Raw = tuple[dict[str, pa.Array], int, int]
"""Values of each known column, the number of rows, and the number of further, unreadable rows."""


class Lines(NamedTuple):
    """Some lines of a text. A compressed text is one part."""

    path: str
    file: ExternalFile
    span: tuple[int, int] | None  # range of bytes; None: the whole text

    def batches(self, columns: Columns) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - all count for quality
        """Yield all columns, and the reasons why rows are unreadable."""
        parse: Callable[[bytes, ExternalFile], Raw] = _csv if self.file.kind == "csv" else _json
        for block in self._blocks():
            if block.strip():
                raw, count, broken = parse(block, self.file)
                raw = {name: _and_nulls(values, broken) for name, values in raw.items()}
                reasons = pa.array([None] * count + [WRONG[self.file.kind]] * broken, pa.string())
                yield _rows(self.file, raw, count + broken, reasons)

    def _blocks(self) -> Iterator[bytes]:
        with opened(self.path) as stream:
            if self.span is None or self.span[0] == 0:
                first = stream.read(len(_BOM))
                started = b"" if first == _BOM else first
                is_head = self.file.kind == "csv"
            else:
                stream.seek(self.span[0])
                started, is_head = b"", False
            left = None if self.span is None else self.span[1] - stream.tell()
            for block in _whole_lines(stream, started, left):
                yield block.partition(b"\n")[2] if is_head else block
                is_head = False


class ParquetRows(NamedTuple):
    """Some row groups of a Parquet file."""

    path: str
    file: ExternalFile
    groups: tuple[int, ...]

    def batches(self, columns: Columns) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - all count for quality
        """Yield all columns, and the reasons why rows are unreadable."""
        with pq.ParquetFile(self.path) as file:
            for batch in file.iter_batches(
                _BATCH_ROWS, row_groups=list(self.groups), columns=list(self.file.known), use_threads=False
            ):
                raw = dict(zip(batch.schema.names, batch.columns, strict=True))
                yield _rows(self.file, raw, len(batch), pa.nulls(len(batch), pa.string()))


def parts_of(file: ExternalFile) -> Iterator[Lines | ParquetRows]:
    """Divide a file on this machine. Raises OSError and pyarrow.ArrowException if it is damaged."""
    for place in file.parts:
        path, file = str(place), file._replace(parts=())
        if file.kind == "parquet":
            groups = pq.read_metadata(path).num_row_groups
            yield from (ParquetRows(path, file, (group,)) for group in range(groups))
        elif path.rpartition(".")[2] in PACKINGS:
            yield Lines(path, file, None)
        else:
            yield from (Lines(path, file, span) for span in pairwise(_starts(path)))


def _starts(path: str) -> list[int]:
    """Return the offset of each part of a text, which is the begin of a line, and the end of the text."""
    size = Path(path).stat().st_size
    found = [0]
    with Path(path).open("rb") as file:
        for near in range(_PART_BYTES, size, _PART_BYTES):
            file.seek(near)
            file.readline()
            if found[-1] < file.tell() < size:
                found.append(file.tell())
    return [*found, size]


def _whole_lines(stream: IO[bytes], started: bytes, left: int | None) -> Iterator[bytes]:
    """Yield blocks of whole lines, first ``started``, then up to ``left`` more bytes."""
    rest = started
    while block := stream.read(_BLOCK_BYTES if left is None else min(left, _BLOCK_BYTES)):
        left = None if left is None else left - len(block)
        whole, newline, tail = block.rpartition(b"\n")
        if newline:
            yield rest + whole + newline
            rest = tail
        else:
            rest += block
    if rest:
        yield rest


def _rows(file: ExternalFile, raw: dict[str, pa.Array], count: int, said: pa.Array) -> pa.RecordBatch:
    run, source = (pa.repeat(text, count) for text in (file.run, str(file.place)))
    return rows(raw, count, said, run, source)


def _and_nulls(values: pa.Array, more: int) -> pa.Array:
    return pa.concat_arrays([values, pa.nulls(more, values.type)]) if more else values


def _csv(block: bytes, file: ExternalFile) -> Raw:
    names = [name for name, _ in file.columns]
    text = _clean(block)
    broken = 0

    def skip(row: pa_csv.InvalidRow) -> str:
        nonlocal broken
        broken += bool(row.text.strip())
        return "skip"

    places = {str(place): name for place, name in enumerate(names) if name in TYPES}
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(text),
            pa_csv.ReadOptions(
                use_threads=False, block_size=len(text) + 1, column_names=[str(n) for n in range(len(names))]
            ),
            pa_csv.ParseOptions(invalid_row_handler=skip),
            pa_csv.ConvertOptions(
                column_types=dict.fromkeys(places, pa.string()), include_columns=list(places)
            ),
        ).combine_chunks()
    except pa.ArrowInvalid:
        return _csv_by_line(text, names)
    if b'"' in text and table.num_rows + broken != sum(bool(line.strip()) for line in text.split(b"\n")):
        return _csv_by_line(text, names)  # an unclosed quote has joined lines
    raw = {name: _one(table[place]) for place, name in places.items()}
    return raw, table.num_rows, broken


def _csv_by_line(block: bytes, names: Sequence[str]) -> Raw:
    lines = (line.rstrip("\r") for line in block.decode().split("\n"))
    read = [next(csv.reader([line])) for line in lines if line.strip()]
    good = [values for values in read if len(values) == len(names)]
    columns = zip(*good, strict=True) if good else ([] for _ in names)
    raw = {
        name: pa.array(values, pa.string())
        for name, values in zip(names, columns, strict=True)
        if name in TYPES
    }
    return raw, len(good), len(read) - len(good)


def _clean(block: bytes) -> bytes:
    """Replace each byte of the text that is not UTF-8 with a mark."""
    try:
        block.decode()
    except UnicodeDecodeError:
        return block.decode("utf-8", "replace").encode()
    return block


def _json(block: bytes, file: ExternalFile) -> Raw:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    found: list[dict[str, Any]] = []
    broken = 0
    for line in block.split(b"\n"):
        if line.strip():
            try:
                found.append(decode(line))
            except (msgspec.MsgspecError, ValueError):
                broken += 1
    names = [name for name in file.known if any(name in row for row in found)]
    return {name: _values([row.get(name) for row in found]) for name in names}, len(found), broken


def _values(values: list[Any]) -> pa.Array:
    """Convert values of JSON to whole numbers if possible, otherwise to texts."""
    if set(map(type, values)) <= {int, type(None)}:
        try:
            return pa.array(values, pa.int64())
        except OverflowError:
            pass
    return pa.array(map(_text, values), pa.string(), size=len(values))


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
