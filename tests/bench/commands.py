"""Client commands, from the start of their process to its end."""

import asyncio
import sys
from time import perf_counter

from tests.bench.figures import Figure, at_most
from tests.bench.progress import rounds
from tests.support.process import broker_process, clean_environment

_COMMANDS = ("healthcheck", "clock", "levels", "topics", "send bench hello", "receive bench --group bench")


async def measure(quick: bool) -> list[Figure]:
    """Run each command in its own process, in turn with an idle interpreter."""
    floors: list[float] = []
    runs: dict[str, list[float]] = {command: [] for command in _COMMANDS}
    async with broker_process("--data", ":memory:") as broker:
        await _seconds(broker.url, "-m", "mocketmq", *_COMMANDS[0].split())  # compiles new modules
        for _ in rounds("commands", 1 if quick else 15):
            floors.append(await _seconds(broker.url, "-c", "pass"))
            for command, taken in runs.items():
                taken.append(await _seconds(broker.url, "-m", "mocketmq", *command.split()))
    return [Figure(command, "s", taken, floors, at_most(0.15)) for command, taken in runs.items()]


async def _seconds(url: str, *arguments: str) -> float:
    started = perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *arguments),
        env={**clean_environment(), "MOCKETMQ_URL": url},
        stdout=asyncio.subprocess.DEVNULL,
    )
    if await process.wait():
        raise RuntimeError(f"{' '.join(arguments)} failed")
    return perf_counter() - started
