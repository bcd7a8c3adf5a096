"""Plays back the lateness of another cluster, read from a report or a ledger (docs/ledger-format.md).

The nth draw of a level depends only on the seed, the level and n. Every hundred draws contain one from each
percentile, evenly spread within the percentile. A few hundred messages thus reproduce the recorded quantiles.
Reports are read as plain JSON, so that the broker does not depend on the report package.
"""

import csv
import sqlite3
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from mocketmq.clock import US_PER_MS
from mocketmq.errors import SettingError
from mocketmq.store.database import FILE_NAME

_STRATA: Final = 100
_GOLDEN: Final = 0.6180339887498949
"""Fraction of the golden ratio. Any number of its multiples, modulo 1, are spread evenly between 0 and 1."""
_MOST_POINTS: Final = 10_000


class LatenessDistribution:
    """A distribution of lateness in microseconds; early messages count as on time.

    ``points`` are pairs of a share of all messages, from 0 to 1, and the maximum lateness within that share.
    """

    def __init__(self, points: Iterable[tuple[float, int]]) -> None:
        ordered = sorted(points)
        self._shares = [share for share, _ in ordered]
        self._values = [max(0, value) for _, value in ordered]

    @classmethod
    def of(cls, lateness_us: Sequence[int]) -> "LatenessDistribution":
        """Make the distribution of one or more measured values."""
        values, count = sorted(lateness_us), len(lateness_us)
        ranks = sorted({count * number // _MOST_POINTS for number in range(_MOST_POINTS)} | {count - 1})
        return cls([(0.0, values[0]), *(((rank + 1) / count, values[rank]) for rank in ranks)])

    def quantile_us(self, share: float) -> int:
        """The lateness that this share of all messages did not exceed."""
        above = min(bisect_left(self._shares, share), len(self._shares) - 1)
        if above == 0:
            return self._values[0]
        low, high = self._shares[above - 1], self._shares[above]
        part = min(1.0, (share - low) / (high - low)) if high > low else 1.0
        return round(self._values[above - 1] + part * (self._values[above] - self._values[above - 1]))


class Playback:
    """Draws the lateness of each message.

    In ``by_level`` the key None means messages without a level. Levels that were not recorded use ``total``.
    """

    def __init__(
        self, total: LatenessDistribution, by_level: Mapping[int | None, LatenessDistribution], seed: int = 0
    ) -> None:
        self._total = total
        self._by_level = by_level
        self._seed = seed
        self._drawn: Counter[int | None] = Counter()
        self._orders: dict[int | None, list[int]] = {}

    def draw_us(self, level: int | None) -> int:
        """Draw the lateness of the level's next message, in microseconds."""
        number = self._drawn[level]
        self._drawn[level] += 1
        block, place = divmod(number, _STRATA)
        if place == 0 or level not in self._orders:
            order = list(range(_STRATA))
            Random(f"{self._seed}/{level}/{block}").shuffle(order)  # noqa: S311 - reproducible on purpose
            self._orders[level] = order
        stratum = self._orders[level][place]
        begin = Random(f"{self._seed}/{level}/of {stratum}").random()  # noqa: S311 - the same
        share = (stratum + (begin + block * _GOLDEN) % 1) / _STRATA
        return self._by_level.get(level, self._total).quantile_us(share)

    def take_back(self, level: int | None) -> None:
        """Undo the last draw of the level."""
        self._drawn[level] -= 1
        self._orders.pop(level, None)

    def begin_again(self) -> None:
        """Repeat the sequence of draws from the start."""
        self._drawn.clear()
        self._orders.clear()


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
        raise ValueError("it contains no delivery")
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
        raise ValueError("it contains no delivery")
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
