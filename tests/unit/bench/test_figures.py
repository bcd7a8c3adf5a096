"""Figures: when a figure meets the project's target."""

from tests.bench.figures import Figure, at_most


def test_aim_may_apply_to_every_run() -> None:
    runs, floors = [4.0, 4.0, 6.0], [10.0, 10.0, 10.0]
    assert Figure("f", "ms", runs, floors, at_most(0.5, of_floor=True)).is_met
    assert not Figure("f", "ms", runs, floors, at_most(0.5, of_floor=True, in_every_run=True)).is_met
