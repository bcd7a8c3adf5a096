"""Keep a ledger's summary as Parquet: a rollup, from which reports are made when the ledger is gone.

A rollup is a directory with a folder for each table: ``lateness`` has counts in bins by run, level, scheme,
topic and minute, ``runs`` and ``moves`` are those of the ledger, and the rest is made by ``summary``. Rollups
are merged by reading them together. Counts and percentiles are those of one rollup of all rows, except that

- a message with deliveries in different rollups counts in each of them, and disorder between two is not
  noticed: the runs of a store belong in one rollup;
- counts up to a limit that is not one of ``CUTOFFS_US`` leave out the bin of the limit;
- steps of time are at least minutes.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq_report.compute import bins, summarize, summary
from mocketmq_report.compute.summary import Summary
from mocketmq_report.ledger.frames import BrokenLedgerError, LedgerFrames
from mocketmq_report.ledger.hadoop_files import HadoopFiles, HadoopPath
from mocketmq_report.progress import ProgressCallback

CUTOFFS_US: Final = (
    10 * US_PER_MS,
    100 * US_PER_MS,
    US_PER_S,
    2 * US_PER_S,
    5 * US_PER_S,
    60 * US_PER_S,
)
"""The limits up to which every report counts deliveries."""

_TABLES: Final = ("outcomes", "again", "stages", "herds", "disorder", "worst", "runs", "moves", "lateness")
_ABOUT: Final = "about"
"""The table that says whether the others are complete."""


class BrokenRollupError(BrokenLedgerError):
    """A rollup cannot be read, or cannot be read together with another."""


class Rollup(NamedTuple):
    """One rollup, or several that were merged. ``summary.timeline`` has steps of a minute."""

    summary: Summary
    runs: DataFrame
    moves: DataFrame


def find(spark: SparkSession, data: Sequence[str]) -> list[str]:
    """Find the rollups at paths and URLs, or in folders there. Returns none if all are ledgers.

    Raises BrokenRollupError if some are rollups and others are not.
    """
    places = HadoopFiles(spark)
    found: list[str] = []
    others: list[str] = []
    for each in data:
        try:
            inside = _rollups(places, places.find(each))
        except BrokenLedgerError:
            inside = []  # reading it as a ledger will say what is wrong
        found += inside
        others += [] if inside else [each]
    if found and others:
        raise BrokenRollupError(
            f"rollups are reported by themselves, and {others[0]} is none: leave it out, or roll it up first"
        )
    return found


def _rollups(places: HadoopFiles, place: HadoopPath) -> list[str]:
    """The path itself if it is a rollup, or the folders in it if all of them are."""
    if _is_one(places, place):
        return [place.url]
    folders = [each for each in places.inside(place) if each.is_folder] if place.is_folder else []
    return [each.url for each in folders] if all(_is_one(places, each) for each in folders) else []


def _is_one(places: HadoopFiles, place: HadoopPath) -> bool:
    return place.is_folder and any(each.name == _ABOUT for each in places.inside(place))


def save(ledger: LedgerFrames, path: str, progress: ProgressCallback) -> None:
    """Write the rollup of a ledger over an earlier one."""
    key = bins.key(F.col("lateness_us"), CUTOFFS_US)
    with summarize.persisted(summary.outcomes(ledger)) as outcomes:
        progress("counting", 0, len(_TABLES) + 1)
        extent = summarize.measure_extent(outcomes.collect())
        with summarize.summarized(ledger, outcomes, extent, key, 60 * US_PER_S) as made:
            frames = {**made._asdict(), "runs": ledger.runs, "moves": ledger.moves}
            frames["lateness"] = summary.minutes(ledger, key)
            _mark(ledger, path, is_whole=False)
            for done, name in enumerate(_TABLES, start=1):
                progress(f"rolling up {name}", done, len(_TABLES) + 1)
                frames[name].write.mode("overwrite").parquet(f"{path}/{name}")
            _mark(ledger, path, is_whole=True)


def load(spark: SparkSession, paths: Sequence[str]) -> Rollup:
    """Read rollups as one. Raises BrokenRollupError if one is incomplete, or if two have the same run."""
    try:
        about = _read(spark, paths, _ABOUT)
        broken = about.where(~F.col("is_whole")).limit(1).collect()
        frames = {name: _read(spark, paths, name) for name in _TABLES}
        twice = (
            frames["runs"].groupBy("run").count().where(F.col("count") > 1).orderBy("run").limit(1).collect()
        )
    except PySparkException as error:
        said = str(error).partition("\n")[0]
        raise BrokenRollupError(f"the rollups cannot be read: {said}") from None
    if broken:
        raise BrokenRollupError(
            f"the rollup {broken[0].path} was not written to its end; write it again from the ledger"
        )
    if twice:
        raise BrokenRollupError(
            f"run {twice[0].run} is in more than one of the rollups and would be counted twice;"
            " give only one of them"
        )
    runs, moves, minutes = frames.pop("runs"), frames.pop("moves"), frames.pop("lateness")
    steps = minutes.where(F.col("minute_us").isNotNull()).withColumnRenamed("minute_us", "at_us")
    return Rollup(Summary(lateness=minutes, timeline=steps, **frames), runs, moves)


def _mark(ledger: LedgerFrames, path: str, *, is_whole: bool) -> None:
    about = ledger.runs.sparkSession.range(1).select(
        F.lit(path).alias("path"), F.lit(is_whole).alias("is_whole")
    )
    about.write.mode("overwrite").parquet(f"{path}/{_ABOUT}")


def _read(spark: SparkSession, paths: Sequence[str], name: str) -> DataFrame:
    return spark.read.parquet(*(f"{path}/{name}" for path in paths))
