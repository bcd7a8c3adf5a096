"""Reads the lateness of another cluster from a report or a ledger (docs/ledger-format.md).

Reports are read as plain JSON, so that the broker does not depend on the report package.
"""

import csv
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec

from mocketmq.clock import US_PER_MS
from mocketmq.errors import SettingError
from mocketmq.schedule.lateness_playback import LatenessDistribution, Playback
from mocketmq.store.database import FILE_NAME

_ALLOWED: Final = (
    "a report.json, a ledger that ends in .csv, .jsonl, .ndjson or .parquet, or a data directory of mocketmq"
)
_COLUMNS: Final = ("due_us", "due_ms", "delivered_us", "delivered_ms", "level", "forced")
_STORED: Final = "SELECT due_us, delivered_us, level, forced FROM deliveries"


class _Point(msgspec.Struct):
    percentile: float
    value_us: int
    count: int


class _Group(msgspec.Struct):
    dimension: str
    name: str


class _Spectrum(_Group):
    points: list[_Point]


class _Lateness(_Group):
    percentiles: dict[str, int | None]


class _Report(msgspec.Struct):
    """The fields of ``report.json`` that are used here."""

    lateness: list[_Lateness]
    spectra: list[_Spectrum]


def open_playback(name: str, seed: int) -> Playback:
    """Open the lateness recording ``name``, as in the settings. Raises SettingError."""
    path = Path(name)
    try:
        if path.suffix == ".json":
            return _of_report(msgspec.json.decode(path.read_bytes(), type=_Report), seed)
        return _of_rows(_rows(path), seed)
    except ModuleNotFoundError as error:
        reason = (
            f"{error.name} is not installed: install mocketmq with its extra 'report', or name a report.json"
        )
    except OSError as error:
        reason = error.strerror or str(error)
    except KeyError as error:
        reason = f"it has no column {error.args[0]}"
    except (ValueError, msgspec.MsgspecError, sqlite3.Error) as error:
        reason = str(error)
    raise SettingError("lateness_from", name, f"{_ALLOWED} ({reason})")


def _of_report(report: _Report, seed: int) -> Playback:
    exact = {
        (each.dimension, each.name): {
            float(name.removeprefix("p")) / 100: value
            for name, value in each.percentiles.items()
            if value is not None
        }
        for each in report.lateness
    }
    total: LatenessDistribution | None = None
    by_level: dict[int | None, LatenessDistribution] = {}
    most = 0
    for each in report.spectra:
        points = {point.percentile / 100: point.value_us for point in each.points}
        points |= exact.get((each.dimension, each.name), {})
        distribution = LatenessDistribution(points.items())
        if each.dimension == "total":
            total = distribution
        elif each.dimension == "level":
            by_level[int(each.name)] = distribution
        elif each.name != "levels" and each.points[-1].count > most:
            most = each.points[-1].count
            by_level[None] = distribution
    if total is None:
        raise ValueError("it has no delivery")
    return Playback(total, by_level, seed)


def _of_rows(rows: Iterable[Mapping[str, Any]], seed: int) -> Playback:
    by_level: dict[int | None, list[int]] = defaultdict(list)
    for row in rows:
        delivered_us = _instant(row, "delivered")
        if delivered_us is not None and str(row.get("forced") or "").lower() not in ("1", "true"):
            due_us = _instant(row, "due")
            if due_us is None:
                raise ValueError("a delivery has no due time")
            level = row.get("level")
            by_level[int(level) if level not in (None, "") else None].append(delivered_us - due_us)
    if not by_level:
        raise ValueError("it has no delivery")
    total = LatenessDistribution.of([each for values in by_level.values() for each in values])
    return Playback(
        total, {level: LatenessDistribution.of(values) for level, values in by_level.items()}, seed
    )


def _instant(row: Mapping[str, Any], stage: str) -> int | None:
    """Return a stage's instant in microseconds, or None if missing. Raises KeyError if there is no column."""
    if f"{stage}_ms" in row:
        value, factor = row[f"{stage}_ms"], US_PER_MS
    else:
        value, factor = row[f"{stage}_us"], 1
    return None if value in (None, "") else int(value) * factor


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    if path.is_dir():
        path = path / FILE_NAME
    match path.suffix:
        case ".db":
            with closing(sqlite3.connect(f"file:{path.absolute()}?mode=ro", uri=True)) as store:
                store.row_factory = sqlite3.Row
                for row in store.execute(_STORED):
                    yield dict(row)
        case ".csv":
            with path.open(encoding="utf-8", newline="") as file:
                yield from csv.DictReader(file)
        case ".jsonl" | ".ndjson":
            with path.open(encoding="utf-8") as file:
                for line in file:
                    # A column missing in a line counts as null.
                    row = msgspec.json.decode(line, type=dict[str, Any])
                    yield {"due_us": None, "delivered_us": None, **row}
        case ".parquet":
            from pyarrow import parquet  # noqa: PLC0415 - needs the extra 'report'

            file = parquet.ParquetFile(path)
            names = [name for name in file.schema_arrow.names if name in _COLUMNS]
            for batch in file.iter_batches(columns=names):
                yield from batch.to_pylist()
        case _:
            raise ValueError("its name has another ending")
