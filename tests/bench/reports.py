"""Lateness reports of ledgers of 1, 10 and 50 million rows, from Parquet and from SQLite.

The whole report is what a user waits for, ``mocketmq report``. The floor of a small one is a bare start of
Spark with one grouping; that of a large one is DuckDB, which computes nothing but the percentiles.
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
    """What a command took; the memory is that of all its processes together, at its peak."""

    seconds: float
    memory_mb: float


async def measure(quick: bool) -> list[Figure]:
    """Small ones with and without Spark, then seconds, rows a second and memory by size."""
    smalls, sizes = ([1_000], [1_000]) if quick else ([2_000, 100_000], [MILLION, 10 * MILLION, 50 * MILLION])
    count = 1 if quick else 3
    figures: list[Figure] = []
    with TemporaryDirectory(prefix="mocketmq-bench-") as directory:
        root = Path(directory)
        for size in smalls:
            data = root / f"small-{size}"
            write_store(data, size)
            ran: dict[str, list[float]] = {"spark": [], "floor": [], "quick": []}
            for _ in rounds(f"{size:,} rows", count):
                ran["floor"].append((await _run("-c", _GROUPING.format(rows=size))).seconds)
                ran["spark"].append((await _report(root, data)).seconds)
                ran["quick"].append((await _report(root, data, "--quick")).seconds)
            figures += _said(
                Figure(f"{size:,} rows, SQLite: report", "s", ran["spark"], ran["floor"], _of_floor(1.5)),
                Figure(f"{size:,} rows, SQLite: report --quick", "s", ran["quick"], aim=at_most(3)),
            )
        for size in sizes:
            for kind, write in (("Parquet", write_parquet), ("SQLite", write_store)):
                data = root / f"{kind}-{size}"
                say(f"writing {size:,} rows, {kind} …")
                await asyncio.to_thread(write, data, size, days=7, runs=3)
                figures += _said(*await _large(root, data, f"{size:,} rows, {kind}", size))
                if kind == "SQLite":
                    (data / "mocketmq.db").unlink()
    return figures


async def _large(root: Path, data: Path, name: str, size: int) -> list[Figure]:
    """The report of a large ledger, by DuckDB's percentiles of it if it is of Parquet."""
    say(f"report of {name} …")
    is_parquet = "Parquet" in name
    is_judged = is_parquet and size >= 10 * MILLION
    floors = [await asyncio.to_thread(_seconds, _duckdb, data)] if is_parquet else []
    ran = await _report(root, data)
    return [
        Figure(f"{name}: report", "s", [ran.seconds], floors, _of_floor(4) if is_judged else None),
        Figure(f"{name}: report", "rows/s", [size / ran.seconds]),
        Figure(f"{name}: peak memory", "MB", [ran.memory_mb], aim=at_most(4_000) if is_judged else None),
    ]


def _of_floor(times: float) -> Aim:
    return Aim(times, is_most=True, is_of_floor=True)


def _said(*figures: Figure) -> list[Figure]:
    """The same, said at once: all of them take the better part of an hour."""
    for figure in figures:
        say(str(figure))
    return list(figures)


async def _report(root: Path, data: Path, *options: str) -> Ran:
    return await _run("-m", "mocketmq", "report", str(data), "--out", str(root / "report"), *options)


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


def _duckdb(data: Path) -> None:
    shares = ", ".join(str(percentile / 100) for percentile in PERCENTILES)
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(_DUCKDB.format(shares=shares, files=f"{data}/deliveries/*/*/*.parquet")).fetchall()


def _seconds(work: Callable[..., None], *arguments: object) -> float:
    started = perf_counter()
    work(*arguments)
    return perf_counter() - started
