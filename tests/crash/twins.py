"""Survivors of power cuts: one broker's data as each of several cuts would have left it."""

import asyncio
import copy
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

from tests.crash.load import Load
from tests.crash.power import Cut, cut
from tests.crash.survivor import Survivor
from tests.support.patience import HANGING_S
from tests.support.process import BrokerProcess

LONGEST_LOAD_S = 0.3


async def twins_of_a_load(survivor: Survivor, random: Random, cuts: int) -> list[Survivor]:
    """Put a load on a broker, cut its power at random moments, and kill it."""
    twins: list[Survivor] = []
    variant = survivor.variant
    async with survivor.broker() as (process, client):
        load = Load(client, survivor.judge, random, variant.delays_s, moves=variant.clock == "manual")
        running = asyncio.create_task(load.run())
        for number in range(cuts):
            await asyncio.sleep(random.uniform(0, LONGEST_LOAD_S))
            async with halted(process):
                twins.append(after_a_cut(survivor, number, random)[0])
        process.kill()
        await running
    return twins


def after_a_cut(survivor: Survivor, number: int, random: Random) -> tuple[Survivor, Cut]:
    """Return the survivor as a power cut leaves it; its broker must be stopped or dead."""
    twin = copy.copy(survivor)
    twin.judge = copy.deepcopy(survivor.judge)
    twin.judge.cut()
    twin.data = survivor.data.with_name(f"cut{number}")
    twin.notes = None
    undone = cut(survivor.data, survivor.notes, twin.data, random)
    twin.may_put_aside = undone.changed > 0
    print(f"cut {number}: {undone}")  # noqa: T201 - pytest shows it with a failure
    return twin, undone


@asynccontextmanager
async def halted(process: BrokerProcess) -> AsyncIterator[None]:
    """Suspend all threads of the process."""
    os.kill(process.pid, signal.SIGSTOP)
    await asyncio.to_thread(_wait_until_halted, process.pid)
    yield
    os.kill(process.pid, signal.SIGCONT)


def _wait_until_halted(pid: int) -> None:
    until_s = time.monotonic() + HANGING_S
    while any(_state(task) != "T" for task in Path(f"/proc/{pid}/task").iterdir()):
        assert time.monotonic() < until_s


def _state(task: Path) -> str:
    return (task / "stat").read_text().rpartition(")")[2].split()[0]
