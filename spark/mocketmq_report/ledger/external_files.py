"""Ledger files that mocketmq did not write: CSV, JSON lines and Parquet with the columns of ``columns``.

``docs/ledger-format.md`` describes the columns. Schemas are never guessed. Python reads these files as
``external_parts``; Spark reads files at URLs, and texts in compression formats that Python lacks.
"""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from mocketmq_report.ledger.external_values import IN_MS, SAYS, TYPES
from mocketmq_report.ledger.ledger import BrokenLedgerError
from mocketmq_report.ledger.places import DataLocation, Places
from mocketmq_report.ledger.places import files as files_below

if TYPE_CHECKING:
    from mocketmq_report.ledger.hadoop_places import HadoopPlaces

NEEDED_COLUMNS: Final = (("message_id",), ("due_us", "due_ms"), ("delivered_us", "delivered_ms", "state"))
WRONG: Final = {"csv": "more or fewer values than columns", "json": "no JSON object"}
"""Reasons why an entire row of a text is unreadable."""

_HEAD_LINES: Final = 100
_FROM_PARQUET: Final = {
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "null"), "long"),
    **dict.fromkeys(("float", "double"), "double"),
    **dict.fromkeys(("string", "large_string"), "string"),
    **dict.fromkeys((f"dictionary<{text}>" for text in ("string", "large_string")), "string"),
    **dict.fromkeys(("bool", "boolean"), "boolean"),
    # names of Parquet's types, as Spark shows them
    **dict.fromkeys(("int64 (INTEGER(64,true))", "int32 (UNKNOWN)"), "long"),
    **{f"int32 (INTEGER({bits},{signed}))": "long" for bits in (8, 16, 32) for signed in ("true", "false")},
    **dict.fromkeys(("binary (STRING)", "binary (ENUM)"), "string"),
}
"""Spark's name of each type of Parquet."""

FORMATS: Final = "CSV (.csv), JSON lines (.jsonl, .ndjson) and Parquet (.parquet), the texts also compressed"

_KINDS: Final = {"csv": "csv", "jsonl": "json", "ndjson": "json", "parquet": "parquet"}
_NAME: Final = re.compile(r"(.+?)\.(csv|jsonl|ndjson|parquet)(?:\.(?:gz|bz2|zst|lz4|snappy|deflate))?")


def parse_name(name: str) -> tuple[str, str] | None:
    """Return the name without its suffix, and the kind: csv, json or parquet. None for other suffixes."""
    found = _NAME.fullmatch(name)
    return (found[1], _KINDS[found[2]]) if found else None


class ExternalFile(NamedTuple):
    """A readable ledger file, or a folder with such a name."""

    place: DataLocation
    kind: str
    run: str  # run of rows without a run: the file's name without suffix, or more of its path
    parts: tuple[DataLocation, ...]
    columns: tuple[tuple[str, str], ...]  # each with Spark's name of its type

    @property
    def known(self) -> dict[str, str]:
        return {name: held for name, held in self.columns if name in TYPES}

    @property
    def ignored(self) -> list[str]:
        """The names of the other columns."""
        return [name for name, _ in self.columns if name not in TYPES]


def is_for_python(part: DataLocation) -> bool:
    """Return whether Python can read a file; any other file needs Spark's file systems or codecs."""
    return part.local is not None and not part.name.endswith((".lz4", ".snappy", ".deflate"))


def inspect(places: "Places | HadoopPlaces", place: DataLocation) -> ExternalFile:
    """Read a file's columns. Raises BrokenLedgerError if needed columns are missing or unreadable."""
    named = parse_name(place.name)
    if named is None:
        raise BrokenLedgerError(f"its name has none of the endings of a ledger: {FORMATS}")
    run, kind = named
    parts = tuple(files_below(places, place)) if place.is_folder else (place,)
    found = {_columns(places, part, kind) for part in parts}
    if len(found) != 1:
        raise BrokenLedgerError("its files have different columns" if found else "there is nothing in it")
    return ExternalFile(place, kind, run, parts, found.pop())


def named_apart(found: Sequence[ExternalFile]) -> list[ExternalFile]:
    """Give files with equal run names different ones, by adding the folder or the whole path."""
    named = list(found)
    for name_of in (lambda place: "/".join(place.url.split("/")[-2:]), str):
        counts = Counter(file.run for file in named)
        named = [file if counts[file.run] == 1 else file._replace(run=name_of(file.place)) for file in named]
    return named


def _columns(places: "Places | HadoopPlaces", part: DataLocation, kind: str) -> tuple[tuple[str, str], ...]:
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
        # Later lines may have columns that the first lines lack.
        return tuple(dict.fromkeys([*TYPES, *keys], "string").items())
    _check(columns)
    for name, in_us in IN_MS.items():
        if name in columns and in_us in columns:
            raise BrokenLedgerError(f"it has both {in_us} and {name}; allowed: one of them")
    return tuple(columns.items())


def _parquet_columns(places: "Places | HadoopPlaces", part: DataLocation) -> dict[str, str]:
    columns = {}
    for name, held in places.parquet_columns(part).items():
        if name not in TYPES:
            columns[name] = ""
            continue
        kind = _FROM_PARQUET.get(held, "")
        if not _can_be(TYPES[name], kind):
            raise BrokenLedgerError(f"its column {name} is {held}; allowed: {SAYS[TYPES[name]]}")
        columns[name] = kind
    return columns


def _header(lines: list[str]) -> list[str]:
    if not lines:
        raise BrokenLedgerError("it is empty: the first line of a CSV file names its columns")
    names = [name.strip() for name in next(csv.reader([lines[0].removeprefix("\ufeff")]), [])]
    for name in names:
        if name in TYPES and names.count(name) > 1:
            raise BrokenLedgerError(f"two of its columns are called {name}")
    # Give columns without a name, or with equal names, different names.
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


def _can_be(wanted: pa.DataType, held: str) -> bool:
    """Return whether a file's values can be converted to the wanted type."""
    if wanted == pa.string():
        return held in ("string", "long")
    if wanted == pa.bool_():
        return held in ("boolean", "long", "string")
    return held in ("long", "double", "string")
