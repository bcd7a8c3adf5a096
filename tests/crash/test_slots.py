"""``kill -9`` at the named points of the scheme ``slots``: nothing acknowledged is lost, nothing repeated."""

from pathlib import Path
from random import Random

import pytest

from tests.crash.points import SLOT_TIMES
from tests.crash.survivor import Survivor, Variant
from tests.crash.test_kill import FILE_POINTS, SEED, TIMES

VARIANTS = {
    "exact": Variant("manual", "exact", [0, 1, 5, 60], timed_scheme="slots"),
    "real": Variant("real", "exact", [0, 1, 1, 2], delay_sync="interval", timed_scheme="slots"),
    "scaled": Variant("x20", "exact", [0, 1, 10, 20], delay_sync="never", timed_scheme="slots"),
}
POINTS = {point: TIMES[point] for point in FILE_POINTS if point != "files.writing"} | {
    point: times for point, times in SLOT_TIMES.items() if point != "slots.removed"
}
"""Without those that a load does not pass: ``tests/unit/compat/test_slot_store.py`` tries the last."""


@pytest.fixture(autouse=True)
def show_seed() -> None:
    print(f"CRASH_SEED={SEED}")  # noqa: T201 - pytest shows it with a failure


async def killed_at(survivor: Survivor, failpoints: list[str], random: Random) -> None:
    for failpoint in failpoints:
        print(f"killed at {failpoint}")  # noqa: T201 - as the seed
        await survivor.run_until_killed(random, failpoint=failpoint)
    await survivor.recover()
    left = [*(survivor.data / "slots" / "data").iterdir(), *(survivor.data / "slots" / "index").iterdir()]
    assert left == [], "nothing waits, so nothing is kept"


async def test_kill_between_the_data_and_the_index(tmp_path: Path) -> None:
    survivor = Survivor(tmp_path, VARIANTS["exact"])
    await killed_at(survivor, ["slots.recorded:12", "slots.marked:5"], Random(SEED))


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("point", POINTS)
async def test_kill_at_a_point(tmp_path: Path, variant: str, point: str) -> None:
    survivor = Survivor(tmp_path, VARIANTS[variant])
    await killed_at(survivor, [f"{point}:{times}" for times in POINTS[point]], Random(f"{SEED} {point}"))


@pytest.mark.slow
async def test_kill_at_every_point_in_any_order(tmp_path: Path) -> None:
    random = Random(f"{SEED} slots")
    survivor = Survivor(tmp_path, VARIANTS["real"])
    points = random.sample([*POINTS], len(POINTS))
    await killed_at(survivor, [f"{point}:{random.choice(POINTS[point])}" for point in points], random)
