"""Floors: the least possible cost of the same task, measured in the same run."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import psutil

from tests.bench.load import TICK_S
from tests.support.process import clean_environment

_BARE = """
import asyncio, sys
import aiohttp.web, aiosqlite
async def main():
    async with aiosqlite.connect(sys.argv[1]) as connection:
        await connection.execute("PRAGMA journal_mode=WAL")
        print("ready", flush=True)
        sys.stdin.readline()
asyncio.run(main())
"""


class FileLog:
    """A file of appended records, durable when ``append`` returns: group commit and nothing else."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._thread = ThreadPoolExecutor(1)
        self._waiting: list[tuple[bytes, Callable[[], object]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def append(self, record: bytes) -> None:
        """Store the record, together with those that arrived while the disk was busy."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.append_then(record, lambda: done.set_result(None))
        await done

    def append_then(self, record: bytes, act: Callable[[], object]) -> None:
        """Append the record, and call ``act`` when it is stored."""
        self._waiting.append((record, act))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            await loop.run_in_executor(self._thread, self._store, b"".join(record for record, _ in batch))
            for _, act in batch:
                act()
            await asyncio.sleep(0)  # lets answered senders send again
        self._writing = None

    def _store(self, records: bytes) -> None:
        os.write(self._file, records)
        os.fdatasync(self._file)

    def close(self) -> None:
        """Stop appending."""
        self._thread.shutdown()
        os.close(self._file)


class Bare(NamedTuple):
    """Start time and memory of an idle process with the libraries and an open database."""

    ready_s: float
    memory_mb: float


async def bare_process(data: Path) -> Bare:
    """Start and stop such a process."""
    started = perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _BARE, str(data / "bare.db")),
        env=clean_environment(),
        stdin=PIPE,
        stdout=PIPE,
    )
    assert process.stdout
    await process.stdout.readline()
    bare = Bare(perf_counter() - started, memory_mb(process.pid))
    await process.communicate(b"\n")
    return bare


@asynccontextmanager
async def server(name: str, *arguments: str) -> AsyncIterator[str]:
    """Run this module's server in its own process, and return its first line, which is its address."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"tests.bench.{name}", *arguments), env=clean_environment(), stdout=PIPE
    )
    assert process.stdout
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        await process.wait()


async def bare_timer(rate: float, seconds: float) -> list[float]:
    """Return the lateness in milliseconds of a loop that only sleeps until each of many instants."""
    started = perf_counter()
    late_ms = []
    for number in range(int(rate * seconds)):
        due = started + number / rate
        while (wait_s := due - perf_counter()) > 0:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(max(wait_s, TICK_S))
        late_ms.append((perf_counter() - due) * 1e3)
    return late_ms


def memory_mb(pid: int) -> float:
    """Return the memory used by a process, in 10^6 bytes."""
    return float(psutil.Process(pid).memory_info().rss) / 1e6
