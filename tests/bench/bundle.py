"""The bundle, as a folder and as one file, beside the environment: start, memory and sizes.

A cold start is the first of a new version. The folder's files are not in the page cache; the single file has
not been unpacked, nor is it in the page cache. The floor is always the environment's warm start.
"""

import asyncio
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from tests.bench.figures import Figure, at_most
from tests.bench.floors import Bare, memory_mb
from tests.bench.progress import rounds
from tests.bench.start import IDLE_S
from tests.kits.running import run
from tests.support.process import broker_process

ROOT = Path(__file__).parents[2]
_ENVIRONMENT = (sys.executable, "-m", "mocketmq")
_READY = {"file, warm": at_most(0.5)}
_TENTH_MORE = at_most(1.1, of_floor=True)


async def measure(quick: bool) -> list[Figure]:
    """Start the environment's broker and both forms of the bundle by turns."""
    run("make", "--no-print-directory", "bundle", cwd=ROOT)
    [folder] = (ROOT / "dist").glob("mocketmq-*/")
    archive, file = folder.with_name(f"{folder.name}.tar.xz"), folder.with_name(f"{folder.name}.run")
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    environment: list[Bare] = []
    starts: dict[str, list[Bare]] = {
        f"{form}, {how}": [] for form in ("folder", "file") for how in ("cold", "warm")
    }
    await _start(*_ENVIRONMENT)  # compiles new modules
    for _ in rounds("bundle", 1 if quick else 7):
        environment.append(await _start(*_ENVIRONMENT))
        _forget(files)
        _forget([file])
        with TemporaryDirectory(prefix="mocketmq-bench-") as cache:
            for how in ("cold", "warm"):
                starts[f"folder, {how}"].append(await _start(str(folder / "mocketmq")))
                starts[f"file, {how}"].append(await _start(str(file), XDG_CACHE_HOME=cache))
    ready_s = [each.ready_s for each in environment]
    idle_mb = [each.memory_mb for each in environment]
    ready = [
        Figure(f"{name}: ready", "s", [each.ready_s for each in taken], ready_s, _READY.get(name))
        for name, taken in starts.items()
    ]
    memory = [
        Figure(f"{name}: idle memory", "MB", [each.memory_mb for each in taken], idle_mb, _TENTH_MORE)
        for name, taken in starts.items()
        if name.endswith("warm")
    ]
    return [
        *ready,
        *memory,
        Figure("archive", "MB", [archive.stat().st_size / 1e6], aim=at_most(35)),
        Figure("file", "MB", [file.stat().st_size / 1e6]),
        Figure("folder", "MB", [sum(path.stat().st_size for path in files) / 1e6]),
    ]


async def _start(*program: str, **variables: str) -> Bare:
    started = perf_counter()
    async with broker_process(program=program, env=variables) as broker:
        ready_s = perf_counter() - started
        await asyncio.sleep(IDLE_S)
        return Bare(ready_s, memory_mb(broker.pid))


def _forget(files: Iterable[Path]) -> None:
    """Drop files from the page cache."""
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)  # only written pages can be dropped
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
