"""``kill -9`` at every named point of each delay scheme neither loses nor repeats a message."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from mocketmq_compat.delay.schemes import DEFAULT, SCHEMES
from tests.crash.points import SCHEME_TIMES
from tests.crash.survivor import Survivor, Variant
from tests.crash.test_kill import SEED, show_seed

__all__ = ["show_seed"]

FOLDERS = ("data", "index")
"""Folders of the scheme ``slots``."""


CLOCKS = {
    "manual": Variant("manual", "exact", [0, 1, 5, 60]),
    "real": Variant("real", "exact", [0, 1, 1, 2], delay_sync="interval"),
    "scaled": Variant("x20", "exact", [0, 1, 10, 20], delay_sync="never"),
}


def variant_of(scheme: str, clock: str = "manual") -> Variant:
    for name in SCHEMES:
        if name == scheme:
            return CLOCKS[clock]._replace(timed_scheme=name)
    raise LookupError(scheme)


async def recover(survivor: Survivor) -> None:
    """Recover, and check that ``slots`` keeps no file, because nothing is pending."""
    await survivor.recover()
    assert [path for path in (survivor.data / "slots").rglob("*") if path.parent.name in FOLDERS] == []


def cases() -> Iterator[object]:
    """Yield each point with its fewest and most passes; tests/crash has the points of second directories."""
    for scheme, points in SCHEME_TIMES.items():
        if scheme != DEFAULT:
            for point, times in points.items():
                yield from (
                    pytest.param(scheme, f"{point}:{count}") for count in sorted({times[0], times[-1]})
                )


def quick_but_for_directories() -> Iterator[object]:
    """Yield every scheme; second directories are marked slow, because test_kill has their quick test."""
    for scheme in SCHEMES:
        yield pytest.param(scheme, marks=pytest.mark.slow if scheme == DEFAULT else ())


def test_every_scheme_has_failpoints() -> None:
    assert SCHEME_TIMES.keys() == SCHEMES.keys()


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "failpoint"), [*cases()])
async def test_kill_at_a_point_of_a_scheme(tmp_path: Path, scheme: str, failpoint: str) -> None:
    survivor = Survivor(tmp_path, variant_of(scheme))
    await survivor.run_until_killed(Random(f"{SEED} {scheme} {failpoint}"), failpoint=failpoint)
    await recover(survivor)


@pytest.mark.parametrize("scheme", [*quick_but_for_directories()])
async def test_kill_at_every_point_of_a_scheme(tmp_path: Path, scheme: str) -> None:
    """The kills come in random order, without repairs in between."""
    random, variant = Random(f"{SEED} {scheme}"), variant_of(scheme)
    survivor = Survivor(tmp_path, variant)
    points = SCHEME_TIMES[variant.timed_scheme]
    for point in random.sample([*points], len(points)):
        failpoint = f"{point}:{points[point][0]}"
        print(f"killed at {failpoint}")  # noqa: T201 - as the seed
        await survivor.run_until_killed(random, failpoint=failpoint)
    await recover(survivor)


@pytest.mark.slow
@pytest.mark.parametrize("clock", ["real", "scaled"])
async def test_kill_at_every_point_of_slots_between_syncs(tmp_path: Path, clock: str) -> None:
    random, points = Random(f"{SEED} slots {clock}"), SCHEME_TIMES["slots"]
    survivor = Survivor(tmp_path, variant_of("slots", clock))
    for point in random.sample([*points], len(points)):
        failpoint = f"{point}:{random.choice(points[point])}"
        print(f"killed at {failpoint}")  # noqa: T201 - as the seed
        await survivor.run_until_killed(random, failpoint=failpoint)
    await recover(survivor)


@pytest.mark.slow
@pytest.mark.parametrize("clock", CLOCKS)
async def test_kill_a_scheme_again_and_again(tmp_path: Path, scheme: str, clock: str) -> None:
    random = Random(f"{SEED} again {scheme} {clock}")
    survivor = Survivor(tmp_path, variant_of(scheme, clock))
    for _ in range(12):
        await survivor.run_until_killed(random, after_s=random.uniform(0, 0.4))
    await recover(survivor)
