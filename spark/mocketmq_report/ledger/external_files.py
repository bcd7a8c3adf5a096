"""Read ledgers that mocketmq did not write: CSV, JSON lines and Parquet with the columns of ``columns``.

``docs/ledger-format.md`` says what each column may hold. Schemas are never guessed. Numbers in CSV and JSON
are read as text, so that what is not a number can be reported: the row's ``unreadable`` says what is wrong.
"""

import csv
import json
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import BooleanType, DataType, StringType, StructType

from mocketmq_report.ledger.columns import DELIVERY_COLUMNS
from mocketmq_report.ledger.file_names import FORMATS, parse_name
from mocketmq_report.ledger.frames import DELIVERIES
from mocketmq_report.ledger.hadoop_places import HadoopPlaces, file_of_row
from mocketmq_report.ledger.ledger import BrokenLedgerError
from mocketmq_report.ledger.places import Place
from mocketmq_report.ledger.places import files as files_below
from mocketmq_report.ledger.quality import UNREADABLE

ABOUT_RUN: Final = ("version", "host", "profile", "clock")
"""Columns of RUNS that a file may give for the run of each row."""
_DEFAULTS: Final = {column.name: column.default for column in DELIVERY_COLUMNS if column.default is not None}
_IN_MS: Final = {f"{name[:-3]}_ms": name for name in DELIVERIES.names if name.endswith("_us")}
_TYPES: Final = {
    **{field.name: field.dataType for field in DELIVERIES},
    **{name: DELIVERIES[in_us].dataType for name, in_us in _IN_MS.items()},
    **dict.fromkeys(ABOUT_RUN, StringType()),
}
NEEDED_COLUMNS: Final = (("message_id",), ("due_us", "due_ms"), ("delivered_us", "delivered_ms", "state"))
_HEAD_LINES: Final = 100
_CORRUPT: Final = "_corrupt_record"
_OPTIONS: Final = {
    "csv": {
        "header": "true",
        "escape": '"',
        "columnPruning": "false",  # otherwise a row is corrupt in one query and not in the next
    },
    "json": {},
    "parquet": {},
}
_CORRUPT_BECAUSE: Final = {"csv": "more or fewer values than columns", "json": "no JSON object"}
_FROM_PARQUET: Final = {
    **dict.fromkeys(("int32", "int64", "int64 (INTEGER(64,true))", "int32 (UNKNOWN)"), "long"),
    **{f"int32 (INTEGER({bits},{signed}))": "long" for bits in (8, 16, 32) for signed in ("true", "false")},
    **dict.fromkeys(("float", "double"), "double"),
    **dict.fromkeys(("binary (STRING)", "binary (ENUM)"), "string"),
    "boolean": "boolean",
}
"""The Spark type as which each type of Parquet is read."""
_SAYS: Final = {
    "long": "a whole number of 64 bits",
    "integer": "a whole number of 32 bits",
    "boolean": "true or false",
    "string": "text",
}
_EXACT: Final = float(1 << 53)
"""Doubles hold every whole number up to here. Pandas writes whole numbers with gaps as doubles."""


class ExternalFile(NamedTuple):
    """A readable ledger file, or a folder of files with such a name."""

    place: Place
    kind: str
    run: str  # of rows without one: the file's name without its ending, or more of its path
    parts: tuple[Place, ...]
    columns: tuple[tuple[str, str], ...]  # each with the Spark type as which it is read

    @property
    def known(self) -> dict[str, str]:
        """The columns that mean something, with their Spark types."""
        return {name: held for name, held in self.columns if name in _TYPES}

    @property
    def ignored(self) -> list[str]:
        """The names of the other columns."""
        return [name for name, _ in self.columns if name not in _TYPES]


def inspect(places: HadoopPlaces, place: Place) -> ExternalFile:
    """Look at a file's columns. Raises BrokenLedgerError if needed ones are missing or cannot be read."""
    named = parse_name(place.name)
    if named is None:
        raise BrokenLedgerError(f"its name has none of the endings of a ledger: {FORMATS}")
    run, kind = named
    parts = tuple(files_below(places, place)) if place.is_folder else (place,)
    found = {_columns(places, part, kind) for part in parts}
    if len(found) != 1:
        raise BrokenLedgerError("its files have different columns" if found else "there is nothing in it")
    return ExternalFile(place, kind, run, parts, found.pop())


def rows(spark: SparkSession, files: Sequence[ExternalFile]) -> DataFrame:
    """The rows of all files: the columns of DELIVERIES and ``ABOUT_RUN``, ``unreadable`` and ``source``.

    Files with the same columns are read together, so that a hundred files do not make a hundred plans.
    """
    alike: dict[object, list[ExternalFile]] = {}
    for file in files:
        columns = file.columns if file.kind == "csv" else tuple(file.known.items())
        alike.setdefault((file.kind, columns), []).append(file)
    return reduce(DataFrame.unionAll, [_rows(spark, group) for group in alike.values()])


def _columns(places: HadoopPlaces, part: Place, kind: str) -> tuple[tuple[str, str], ...]:
    if kind == "parquet":
        columns = _parquet_columns(places, part)
    elif kind == "csv":
        columns = dict.fromkeys(_header(places.head(part, 1)), "string")
    else:
        lines = places.head(part, _HEAD_LINES)
        keys = _keys(lines)
        if lines and not keys:
            raise BrokenLedgerError(f"none of its first {len(lines)} lines is a JSON object")
        if lines:
            _check(keys)
        # Later lines may have columns that the first ones lack.
        return tuple(dict.fromkeys([*_TYPES, *keys], "string").items())
    _check(columns)
    for name, in_us in _IN_MS.items():
        if name in columns and in_us in columns:
            raise BrokenLedgerError(f"it has both {in_us} and {name}; allowed is one of them")
    return tuple(columns.items())


def _parquet_columns(places: HadoopPlaces, part: Place) -> dict[str, str]:
    columns = {}
    for name, held in places.parquet_columns(part).items():
        if name not in _TYPES:
            columns[name] = ""
            continue
        kind = _FROM_PARQUET.get(held, "")
        if not _can_be(_TYPES[name], kind):
            raise BrokenLedgerError(f"its column {name} is {held}; allowed: {_SAYS[_TYPES[name].typeName()]}")
        columns[name] = kind
    return columns


def _header(lines: list[str]) -> list[str]:
    if not lines:
        raise BrokenLedgerError("it is empty: the first line of a CSV file names its columns")
    names = [name.strip() for name in next(csv.reader([lines[0].removeprefix("\ufeff")]), [])]
    for name in names:
        if name in _TYPES and names.count(name) > 1:
            raise BrokenLedgerError(f"two of its columns are called {name}")
    # Columns without a name, or with the same name, must be told apart.
    return [name if names.index(name) == place else f"{name}#{place}" for place, name in enumerate(names)]


def _keys(lines: list[str]) -> list[str]:
    keys: dict[str, None] = {}
    for line in lines:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            keys |= dict.fromkeys(found)
    return list(keys)


def _check(names: Iterable[str]) -> None:
    names = list(names)
    for either in NEEDED_COLUMNS:
        if not set(either) & set(names):
            found = ", ".join(names[:30]) or "none"
            raise BrokenLedgerError(
                f"it has no column {' or '.join(either)}; found: {found}; needed: message_id, due_us or"
                " due_ms, and delivered_us, delivered_ms or state (docs/ledger-format.md)"
            )


def _rows(spark: SparkSession, files: Sequence[ExternalFile]) -> DataFrame:
    """The rows of files that have the same columns."""
    kind, known = files[0].kind, files[0].known
    schema = StructType()
    for place, (name, held) in enumerate(files[0].columns):
        if name in known:
            schema.add(name, held)
        elif kind == "csv":  # whose columns go by position
            schema.add(f"_c{place}", "string")
    if kind in _CORRUPT_BECAUSE:
        schema.add(_CORRUPT, "string")
    reader = spark.read.format(kind).schema(schema).options(**_OPTIONS[kind])
    read = _with_source(spark, reader.load([part.pattern for file in files for part in file.parts]), files)

    raw = {name: _raw(name, held) for name, held in known.items()}
    cells = {name: _cell(name, held, raw[name]) for name, held in known.items()}
    wrong = [(F.col(_CORRUPT).isNotNull(), _CORRUPT_BECAUSE[kind])] if kind in _CORRUPT_BECAUSE else []
    for in_ms, in_us in _IN_MS.items():
        if in_ms in cells and in_us in cells:
            wrong.append((raw[in_ms].isNotNull() & raw[in_us].isNotNull(), f"both {in_us} and {in_ms}"))
    wrong += [
        (raw[name].isNotNull() & cells[name].isNull(), f"{name} is not {_SAYS[_TYPES[name].typeName()]}")
        for name in cells
    ]
    return read.select(
        *(column.alias(name) for name, column in _row(cells).items()),
        F.coalesce(*(F.when(condition, reason) for condition, reason in wrong)).alias(UNREADABLE),
        *(cells.get(name, F.lit(None).cast("string")).alias(name) for name in ABOUT_RUN),
        "source",
    )


def _with_source(spark: SparkSession, read: DataFrame, files: Sequence[ExternalFile]) -> DataFrame:
    """Add ``file_run`` and ``source``: of the file from which each row comes."""
    if len(files) == 1:
        return read.withColumns({"file_run": F.lit(files[0].run), "source": F.lit(str(files[0].place))})
    table = [
        {"uri": part.uri, "file_run": file.run, "source": str(file.place)}
        for file in files
        for part in file.parts
    ]
    sources = spark.createDataFrame(pa.Table.from_pylist(table))
    return read.withColumn("uri", file_of_row()).join(F.broadcast(sources), "uri")


def _raw(name: str, held: str) -> Column:
    """The value as it stands in the file, null where it is empty."""
    if held == "string":
        return F.nullif(F.trim(name), F.lit(""))
    return F.when(~F.isnan(name), F.col(name)) if held == "double" else F.col(name)


def _cell(name: str, held: str, raw: Column) -> Column:
    """The value in the type that its column should have, null where it does not fit."""
    wanted = _TYPES[name]
    if held == "double":
        raw = F.when((raw == F.floor(raw)) & (F.abs(raw) <= _EXACT), raw)
    elif isinstance(wanted, BooleanType) and held == "long":
        raw = F.when(raw.isin(0, 1), raw)
    cell = raw.try_cast(wanted)
    return F.try_multiply(cell, F.lit(1000)) if name in _IN_MS else cell


def _row(cells: dict[str, Column]) -> dict[str, Column]:
    """The columns of DELIVERIES, with defaults for what the file lacks."""
    row = {}
    for field in DELIVERIES:
        in_ms = field.name.removesuffix("_us") + "_ms"
        given = [cells[name] for name in (field.name, in_ms) if name in cells]
        if field.name in _DEFAULTS:
            given.append(F.lit(_DEFAULTS[field.name]))
        row[field.name] = F.coalesce(*given, F.lit(None)).cast(field.dataType)
    row["run"] = F.coalesce(row["run"], F.col("file_run"))
    by_level = F.when(row["level"].isNull(), "absolute").otherwise("levels")
    row["scheme"] = F.coalesce(cells.get("scheme", F.lit(None)), by_level)
    by_time = F.when(row["delivered_us"].isNull(), "pending").otherwise("delivered")
    row["state"] = F.coalesce(row["state"], by_time)
    return row


def _can_be(wanted: DataType, held: str) -> bool:
    """Whether values that Spark reads as ``held`` may become the type that is wanted."""
    if isinstance(wanted, StringType):
        return held in ("string", "long")
    if isinstance(wanted, BooleanType):
        return held in ("boolean", "long", "string")
    return held in ("long", "double", "string")
