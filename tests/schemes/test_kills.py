"""``kill -9`` at every named point of each delay scheme: nothing is lost, nothing repeated."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from mocketmq_compat.delay.schemes import DEFAULT, SCHEMES
from tests.crash.points import SCHEME_TIMES
from tests.crash.survivor import Survivor, Variant
from tests.crash.test_kill import SEED, show_seed

__all__ = ["show_seed"]


def variant_of(scheme: str) -> Variant:
    for name in SCHEMES:
        if name == scheme:
            return Variant("manual", "exact", [0, 1, 5, 60], timed_scheme=name)
    raise LookupError(scheme)


def cases() -> Iterator[object]:
    """Each point with the fewest and the most passes; second directories have theirs in tests/crash."""
    for scheme, points in SCHEME_TIMES.items():
        if scheme != DEFAULT:
            for point, times in points.items():
                yield from (
                    pytest.param(scheme, f"{point}:{count}") for count in sorted({times[0], times[-1]})
                )


def quick_but_for_directories() -> Iterator[object]:
    """Every scheme; test_kill has the quick one for second directories."""
    for scheme in SCHEMES:
        yield pytest.param(scheme, marks=pytest.mark.slow if scheme == DEFAULT else ())


def test_every_scheme_has_points() -> None:
    assert SCHEME_TIMES.keys() == SCHEMES.keys()


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "failpoint"), [*cases()])
async def test_kill_at_a_point_of_a_scheme(tmp_path: Path, scheme: str, failpoint: str) -> None:
    survivor = Survivor(tmp_path, variant_of(scheme))
    await survivor.run_until_killed(Random(f"{SEED} {scheme} {failpoint}"), failpoint=failpoint)
    await survivor.recover()


@pytest.mark.parametrize("scheme", [*quick_but_for_directories()])
async def test_kill_at_every_point_of_a_scheme(tmp_path: Path, scheme: str) -> None:
    """One kill after the other, in random order, without repairs between them."""
    random, variant = Random(f"{SEED} {scheme}"), variant_of(scheme)
    survivor = Survivor(tmp_path, variant)
    points = SCHEME_TIMES[variant.timed_scheme]
    for point in random.sample([*points], len(points)):
        failpoint = f"{point}:{points[point][0]}"
        print(f"killed at {failpoint}")  # noqa: T201 - as the seed
        await survivor.run_until_killed(random, failpoint=failpoint)
    await survivor.recover()


@pytest.mark.slow
async def test_kill_a_scheme_again_and_again(tmp_path: Path, scheme: str) -> None:
    random = Random(f"{SEED} again {scheme}")
    survivor = Survivor(tmp_path, variant_of(scheme))
    for _ in range(12):
        await survivor.run_until_killed(random, after_s=random.uniform(0, 0.4))
    await survivor.recover()
