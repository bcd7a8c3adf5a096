"""A power cut at every named point and at random moments: every answer that was given still holds."""

import asyncio
import copy
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from tests.crash.load import Load
from tests.crash.power import Cut, cut
from tests.crash.survivor import Survivor, Variant
from tests.crash.test_kill import SEED, TIMES, VARIANTS, show_seed
from tests.support.patience import HANGING_S
from tests.support.process import BrokerProcess

__all__ = ["show_seed"]

POINTS = {point: times for point, times in TIMES.items() if point not in ("offsets.saved", "files.writing")}
"""Of a broker that is killed there: what it had written by then is what the power cut finds."""
QUICK = (
    *("writer.written", "writer.committed", "log.syncing", "log.synced", "delivery.delivered"),
    *("files.renamed", "files.delivered", "files.removed", "clock.fired", "receive.settled"),
)
CUTS = 2
SLOW_CUTS = 17
ROUNDS = 10
STOPS = 4
LONGEST_LOAD_S = 0.3


def cases() -> Iterator[object]:
    """Each point with each number of passes; with the last one of some it is quick."""
    for point, times in POINTS.items():
        for count in times:
            is_quick = point in QUICK and count == times[-1]
            yield pytest.param(
                f"{point}:{count}",
                CUTS if is_quick else SLOW_CUTS,
                marks=() if is_quick else pytest.mark.slow,
            )


def after_a_cut(survivor: Survivor, number: int, random: Random) -> tuple[Survivor, Cut]:
    """The survivor as a power cut leaves it; its broker is stopped or dead."""
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
    """Within, none of the process's threads runs."""
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


@pytest.mark.parametrize(("failpoint", "cuts"), [*cases()])
async def test_power_cut_at_a_point(tmp_path: Path, failpoint: str, cuts: int) -> None:
    random = Random(f"{SEED} power {failpoint}")
    survivor = Survivor(tmp_path, VARIANTS["exact"])
    survivor.notes = tmp_path / "syncs"
    await survivor.run_until_killed(random, failpoint=failpoint)
    for number in range(cuts):
        twin, _ = after_a_cut(survivor, number, random)
        await twin.recover()


@pytest.mark.parametrize(
    ("variant", "round_"),
    [
        pytest.param(variant, round_, marks=() if (variant, round_) in (("real", 0),) else pytest.mark.slow)
        for variant in ("exact", "real")
        for round_ in range(ROUNDS)
    ],
)
async def test_power_cuts_at_random_moments(tmp_path: Path, variant: str, round_: int) -> None:
    random = Random(f"{SEED} power {variant} {round_}")
    survivor = Survivor(tmp_path, VARIANTS[variant])
    survivor.notes = tmp_path / "syncs"
    twins: list[Survivor] = []
    stops = STOPS if round_ == 0 else SLOW_CUTS
    async with survivor.broker() as (process, client):
        load = Load(client, survivor.judge, random, VARIANTS[variant].delays_s, moves=variant == "exact")
        running = asyncio.create_task(load.run())
        for number in range(stops):
            await asyncio.sleep(random.uniform(0, LONGEST_LOAD_S))
            async with halted(process):
                twins.append(after_a_cut(survivor, number, random)[0])
        process.kill()
        await running
    for twin in twins:
        await twin.recover()


async def test_the_model_finds_promises_that_were_answered_too_early(tmp_path: Path) -> None:
    """As with durability ``normal``, which promises nothing for a power cut."""
    random = Random(SEED)
    survivor = Survivor(tmp_path, Variant("manual", "exact", [0, 1], durability="normal"))
    await survivor.run_until_killed(random, failpoint="writer.committed:60")
    for number in range(50):
        twin, undone = after_a_cut(survivor, number, random)
        if undone.lost > undone.frames:
            break
    with pytest.raises(AssertionError, match="was lost"):
        await twin.recover()
