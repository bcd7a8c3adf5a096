"""Conditions under which a load is measured, from the environment:

``BENCH_STORES``        some of ``disk``, ``memory`` (a file system in memory) and ``noisy``: the disk, beside
                        a neighbour that writes and syncs 64 MB twice a second
``BENCH_RATES``         deliveries a second
``BENCH_SECONDS``       of a round
``BENCH_ROUNDS``        by turns
``BENCH_LONG_SECONDS``  of a run in which nothing may grow
``BENCH_ROCKETMQS``     versions of RocketMQ to measure beside
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.bench.floors import server
from tests.upstream.jars import V4, V5_5

DISK: Final = "disk"
MEMORY: Final = "memory"
NOISY: Final = "noisy"

STORES: Final = os.environ.get("BENCH_STORES", f"{DISK} {MEMORY} {NOISY}").split()
RATES: Final = [int(rate) for rate in os.environ.get("BENCH_RATES", "200 500").split()]
SECONDS: Final = float(os.environ.get("BENCH_SECONDS", "60"))
ROUNDS: Final = int(os.environ.get("BENCH_ROUNDS", "5"))
LONG_SECONDS: Final = float(os.environ.get("BENCH_LONG_SECONDS", "300"))
ROCKETMQS: Final = os.environ.get("BENCH_ROCKETMQS", f"{V4} {V5_5}").split()

_FOLDERS: Final = {MEMORY: "/dev/shm"}  # noqa: S108 - it is the parent of a temporary directory


@asynccontextmanager
async def place(store: str) -> AsyncIterator[Path]:
    """Create a data directory in such a store, with a writing neighbour if the store has one."""
    with TemporaryDirectory(prefix="mocketmq-bench-", dir=_FOLDERS.get(store)) as directory:
        data = Path(directory, "data")
        if store != NOISY:
            yield data
            return
        async with server("neighbour", str(Path(directory, "noise"))):
            yield data
