"""Series: by which power of the size a cost grows."""

import pytest

from tests.bench.growth.series import FLAT, LINEAR, Cost, Series, collect

SIZES = (10, 100, 1_000)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_is_the_power_of_what_is_above_the_base(power: float) -> None:
    series = Series("s", "s", "messages", {size: 3 + 0.5 * size**power for size in SIZES}, LINEAR, base=3)
    assert series.exponent == pytest.approx(power)


def test_costs_lost_in_the_noise_of_the_base_have_no_exponent() -> None:
    series = Series("s", "MB", "messages", dict.fromkeys(SIZES, 54.5), FLAT, base=54)
    assert series.exponent is None
    assert [figure.is_met for figure in series.figures()] == [None, None, None, True]


def test_costs_are_collected_by_name_with_that_of_nothing_as_their_base() -> None:
    costs = [Cost(name, "s", size, value) for size, value in ((0, 1.0), (10, 2.0)) for name in ("a", "b")]
    assert collect("topics", costs) == [
        Series(name, "s", "topics", {10: 2.0}, LINEAR, 1.0) for name in ("a", "b")
    ]
