"""After a power cut at any named point or random moment, every answer that was given still holds."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.crash.survivor import Survivor, Variant
from tests.crash.test_kill import SEED, TIMES, VARIANTS, show_seed
from tests.crash.twins import after_a_cut, twins_of_a_load

__all__ = ["show_seed"]

POINTS = {point: times for point, times in TIMES.items() if point not in ("offsets.saved", "files.writing")}
"""Failpoints at which the broker is killed before the power is cut."""
QUICK = (
    *("writer.written", "writer.committed", "log.syncing", "log.synced", "delivery.delivered"),
    *("files.renamed", "files.delivered", "files.removed", "clock.fired", "receive.settled"),
)
CUTS = 2
SLOW_CUTS = 9
ROUNDS = 10
STOPS = 4


def cases() -> Iterator[object]:
    """Yield each point with each number of passes; the last number of some points is quick."""
    for point, times in POINTS.items():
        for count in times:
            is_quick = point in QUICK and count == times[-1]
            yield pytest.param(
                f"{point}:{count}",
                CUTS if is_quick else SLOW_CUTS,
                marks=() if is_quick else pytest.mark.slow,
            )


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
    for twin in await twins_of_a_load(survivor, random, STOPS if round_ == 0 else SLOW_CUTS):
        await twin.recover()


async def test_model_finds_answers_sent_before_their_sync(tmp_path: Path) -> None:
    """Durability ``normal`` makes no promise for power cuts."""
    random = Random(SEED)
    survivor = Survivor(tmp_path, Variant("manual", "exact", [0, 1], durability="normal"))
    await survivor.run_until_killed(random, failpoint="writer.committed:60")
    for number in range(50):
        twin, undone = after_a_cut(survivor, number, random)
        if undone.lost > undone.frames:
            break
    with pytest.raises(AssertionError, match="was lost"):
        await twin.recover()
