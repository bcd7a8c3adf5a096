"""Lateness reports of ledgers of 2,000 to 50 million rows, from Parquet and from SQLite.

The whole report, ``mocketmq report``, is what a user waits for. The floor of a small report is a bare start
of Spark with one grouping. The floor of a large report from Parquet is DuckDB, which computes only the
percentiles, and from SQLite it is ADBC, which only reads the rows.
"""

import asyncio
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, NamedTuple

import duckdb
import psutil
from adbc_driver_sqlite import dbapi as adbc

from mocketmq.store.database import FILE_NAME
from mocketmq_report.compute.tables import TablePlan
from tests.bench.figures import Aim, Figure, at_most
from tests.bench.progress import rounds, say
from tests.support.ledgers import write_parquet, write_store
from tests.support.process import clean_environment

MILLION = 1_000_000
SAMPLE_S = 0.1
PERCENTILES = TablePlan().percentiles
_GROUPING = """
from mocketmq_report.session import session
with session() as spark:
    spark.range({rows}).selectExpr("id % 18 AS level").groupBy("level").count().collect()
"""
_DUCKDB = """
SELECT level, scheme, topic, run, count(*), min(late), max(late), avg(late), quantile_disc(late, [{shares}])
FROM (SELECT *, delivered_us - due_us AS late FROM read_parquet('{files}', hive_partitioning = true)
 WHERE state = 'delivered' AND NOT forced)
GROUP BY GROUPING SETS ((), (level), (scheme), (topic), (run))"""


class Ran(NamedTuple):
    """CPU time and peak memory of a command and its child processes."""

    seconds: float
    cpu_s: float
    memory_mb: float


async def small(quick: bool) -> list[Figure]:
    """Seconds of small ledgers, with and without Spark."""
    figures: list[Figure] = []
    with TemporaryDirectory(prefix="mocketmq-bench-") as directory:
        root = Path(directory)
        for size in [1_000] if quick else [2_000, 100_000]:
            data = root / f"small-{size}"
            write_store(data, size)
            floor, spark, alone = [], [], []
            for _ in rounds(f"{size:,} rows", 1 if quick else 3):
                floor.append(await _run("-c", _GROUPING.format(rows=size)))
                spark.append(await report(root, data))
                alone.append(await report(root, data, "--quick"))
            name = f"{size:,} rows, SQLite: report"
            figures += _said(
                *_figures(name, spark, floor, _of_floor(1.5)),
                *_figures(f"{name} --quick", alone, (), at_most(3)),
            )
    return figures


def large(size: int) -> Callable[[bool], Coroutine[Any, Any, list[Figure]]]:
    """Seconds, rows a second and memory of a report of so many rows."""

    async def measure(quick: bool) -> list[Figure]:
        rows, figures = 1_000 if quick else size, []
        with TemporaryDirectory(prefix="mocketmq-bench-") as directory:
            root = Path(directory)
            for kind, write in (("Parquet", write_parquet), ("SQLite", write_store)):
                data = root / kind
                say(f"writing {rows:,} rows, {kind} …")
                await asyncio.to_thread(write, data, rows, days=7, runs=3)
                figures += _said(*await _large(root, data, f"{rows:,} rows, {kind}", rows))
                shutil.rmtree(data)
        return figures

    return measure


async def _large(root: Path, data: Path, name: str, size: int) -> list[Figure]:
    say(f"report of {name} …")
    is_parquet = "Parquet" in name
    is_judged = is_parquet and size >= 10 * MILLION
    floor = await asyncio.to_thread(_ran, _duckdb if is_parquet else _adbc, data)
    figures = []
    for name_of, options in (("report", ()), ("report --quick", ("--quick",))):
        ran = await report(root, data, *options)
        figures += [
            *_figures(f"{name}: {name_of}", [ran], [floor], _of_floor(4) if is_judged else None),
            Figure(f"{name}: {name_of}", "rows/s", [size / ran.seconds]),
            Figure(
                f"{name}: {name_of}, peak memory",
                "MB",
                [ran.memory_mb],
                aim=at_most(4_000) if is_judged else None,
            ),
        ]
    return figures


def _figures(name: str, ran: Sequence[Ran], floors: Sequence[Ran], aim: Aim | None) -> list[Figure]:
    """Seconds by the wall, and of all processors, which a busy machine changes less."""
    return [
        Figure(name, "s", [each.seconds for each in ran], [each.seconds for each in floors], aim),
        Figure(name, "CPU s", [each.cpu_s for each in ran], [each.cpu_s for each in floors]),
    ]


def _of_floor(times: float) -> Aim:
    return Aim(times, is_most=True, is_of_floor=True)


def _said(*figures: Figure) -> list[Figure]:
    """Print figures at once, because all of them take most of an hour."""
    for figure in figures:
        say(str(figure))
    return list(figures)


async def report(root: Path, data: Path, *options: str) -> Ran:
    """Run the command ``report`` on a data directory, with its pages below ``root``."""
    return await _run("-m", "mocketmq", "report", str(data), "--out", str(root / "report"), *options)


async def _run(*arguments: str) -> Ran:
    """Run Python, and watch its processes until it ends."""
    began = perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, env=clean_environment(), stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
    )
    memory_mb = 0.0
    cpu_s: dict[int, float] = {}
    done = asyncio.create_task(process.communicate())
    while not done.done():
        memory_mb = max(memory_mb, _look(process.pid, cpu_s))
        await asyncio.wait([done], timeout=SAMPLE_S)
    _, said = await done
    if process.returncode:
        raise RuntimeError(f"python {' '.join(arguments)} exited with {process.returncode}: {said.decode()}")
    return Ran(perf_counter() - began, sum(cpu_s.values()), memory_mb)


def _look(pid: int, cpu_s: dict[int, float]) -> float:
    """Note the processor time of a process and all below it, and return their memory in MB.

    Memory shared with a forked worker counts for both, so the sum is never too small.
    """
    total = 0
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        for each in (parent, *parent.children(recursive=True)):
            with each.oneshot():
                times = each.cpu_times()
                cpu_s[each.pid] = times.user + times.system
                total += each.memory_info().rss
    return total / 1e6


def _duckdb(data: Path) -> None:
    shares = ", ".join(str(percentile / 100) for percentile in PERCENTILES)
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(_DUCKDB.format(shares=shares, files=f"{data}/deliveries/*/*/*.parquet")).fetchall()


def _adbc(data: Path) -> None:
    with adbc.connect(str(data / FILE_NAME)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM deliveries")
        for _ in cursor.fetch_record_batch():
            pass


def _ran(work: Callable[[Path], None], data: Path) -> Ran:
    """CPU time of work in this process, without its memory."""
    began, used = perf_counter(), process_time()
    work(data)
    return Ran(perf_counter() - began, process_time() - used, 0)
