"""Lateness reports of ledgers of 1, 10 and 50 million rows, from Parquet and from SQLite.

The whole report is what a user waits for, ``mocketmq report``, without the start of Spark and its JVM. The
percentile tables alone are computed in a session that is warm, beside DuckDB, which computes the same
percentiles of the same files.
"""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

import duckdb
import psutil
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from mocketmq_report.compute import bins, lateness, summary
from mocketmq_report.compute.rollup import CUTOFFS_US
from mocketmq_report.compute.tables import TablePlan
from mocketmq_report.ledger import sources
from mocketmq_report.session import session
from tests.bench.figures import Aim, Figure, at_most
from tests.bench.progress import rounds, say
from tests.support.ledgers import Shape, write_parquet, write_store
from tests.support.process import clean_environment

MILLION = 1_000_000
SAMPLE_S = 0.1
PERCENTILES = TablePlan().percentiles
_NOTHING = "from mocketmq_report.session import session\nwith session() as spark: spark.range(1).count()"
_DUCKDB = """
SELECT level, scheme, topic, run, count(*), min(late), max(late), avg(late), quantile_disc(late, [{shares}])
FROM (SELECT *, delivered_us - due_us AS late FROM read_parquet('{files}', hive_partitioning = true)
 WHERE state = 'delivered' AND NOT forced)
GROUP BY GROUPING SETS ((), (level), (scheme), (topic), (run))"""


class Ran(NamedTuple):
    """What a command took; the memory is that of all its processes together, at its peak."""

    seconds: float
    memory_mb: float


async def measure(quick: bool) -> list[Figure]:
    """Small ones from the command to the report, then rows a second, memory and percentiles by size."""
    sizes = [1_000] if quick else [MILLION, 10 * MILLION, 50 * MILLION]
    small, count = (1_000, 1) if quick else (100_000, 3)
    with TemporaryDirectory(prefix="mocketmq-bench-") as directory:
        root = Path(directory)
        started = [(await _run("-c", _NOTHING)).seconds for _ in rounds("start of Spark", count)]
        start_s = min(started)
        write_store(root / "small", small)
        waits = [(await _report(root, root / "small")).seconds for _ in rounds(f"{small:,} rows", count)]
        figures = _said(
            Figure(f"{small:,} rows, SQLite: command to report", "s", waits, aim=at_most(15)),
            Figure("of that: start of Spark and its JVM", "s", started),
        )
        for size in sizes:
            for kind, write in (("Parquet", write_parquet), ("SQLite", write_store)):
                data = root / f"{kind}-{size}"
                say(f"writing {size:,} rows, {kind} …")
                await asyncio.to_thread(write, data, size, days=7, runs=3)
                name = f"{size:,} rows, {kind}"
                say(f"report of {name} …")
                ran = await _report(root, data)
                seconds = max(ran.seconds - start_s, 0.001)
                is_judged = kind == "Parquet" and size == 50 * MILLION
                figures += _said(
                    Figure(f"{name}: report", "s", [seconds], aim=at_most(60) if is_judged else None),
                    Figure(f"{name}: report", "rows/s", [size / seconds]),
                    Figure(
                        f"{name}: peak memory",
                        "MB",
                        [ran.memory_mb],
                        aim=at_most(4_000) if is_judged else None,
                    ),
                )
                if kind == "SQLite":
                    (data / "mocketmq.db").unlink()
        figures += _percentiles(root, sizes, 1 if quick else 3)
    return figures


def _said(*figures: Figure) -> list[Figure]:
    """The same, said at once: all of them take the better part of an hour."""
    for figure in figures:
        say(str(figure))
    return list(figures)


async def _report(root: Path, data: Path) -> Ran:
    return await _run("-m", "mocketmq", "report", str(data), "--out", str(root / "report"))


async def _run(*arguments: str) -> Ran:
    """Run Python, and look at the memory of all that it starts until it is done."""
    began = perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env=clean_environment(), stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
    )
    memory_mb = 0.0
    done = asyncio.create_task(process.communicate())
    while not done.done():
        memory_mb = max(memory_mb, _tree_mb(process.pid))
        await asyncio.wait([done], timeout=SAMPLE_S)
    _, said = await done
    if process.returncode:
        raise RuntimeError(f"python {' '.join(arguments)} exited with {process.returncode}: {said.decode()}")
    return Ran(perf_counter() - began, memory_mb)


def _tree_mb(pid: int) -> float:
    """What is shared with a forked worker is counted in both: never too little."""
    total = 0
    try:
        parent = psutil.Process(pid)
        for each in (parent, *parent.children(recursive=True)):
            total += each.memory_info().rss
    except psutil.NoSuchProcess:
        pass
    return total / 1e6


def _percentiles(root: Path, sizes: list[int], count: int) -> list[Figure]:
    figures = []
    with session() as spark:
        for size in sizes:
            data = root / f"Parquet-{size}"
            _percentile_tables(spark, data)  # warm
            ours, floors = [], []
            for _ in rounds(f"percentiles of {size:,} rows", count):
                ours.append(_seconds(_percentile_tables, spark, data))
                floors.append(_seconds(_duckdb, data))
            name = f"{size:,} rows, Parquet: percentile tables (floor: DuckDB)"
            aim = Aim(1.5, is_most=True, is_of_floor=True) if size == 50 * MILLION else None
            figures += _said(Figure(name, "s", ours, floors, aim))
    return figures


def _percentile_tables(spark: SparkSession, data: Path) -> None:
    read = sources.read(spark, [str(data)]).ledger
    counts = summary.lateness(read, bins.key(F.col("lateness_us"), CUTOFFS_US))
    distributions = lateness.distributions(counts, read.runs, Shape(0).topics)
    lateness.lateness(distributions, TablePlan().on_time_us, CUTOFFS_US, PERCENTILES).collect()


def _duckdb(data: Path) -> None:
    shares = ", ".join(str(percentile / 100) for percentile in PERCENTILES)
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(_DUCKDB.format(shares=shares, files=f"{data}/deliveries/*/*/*.parquet")).fetchall()


def _seconds(work: Callable[..., None], *arguments: object) -> float:
    started = perf_counter()
    work(*arguments)
    return perf_counter() - started
