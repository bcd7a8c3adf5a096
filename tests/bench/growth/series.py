"""A series: one cost at several sizes, and the exponent by which it grows."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tests.bench.figures import Aim, Figure, at_most

LINEAR = at_most(1.1)
"""Aim for the exponent of work that has to be done for each message, topic or client."""
FLAT = at_most(0.1)
"""Aim for the exponent of a cost that should not grow."""


class Series(NamedTuple):
    """``costs`` by size; ``base`` is the cost at size 0, which the exponent leaves out."""

    name: str
    unit: str
    of: str
    costs: Mapping[int, float]
    aim: Aim
    base: float = 0

    @property
    def exponent(self) -> float | None:
        """The slope of a line through the logarithms of sizes and costs; None if hardly anything grows.

        A cost below a tenth of ``base`` is lost in its noise, and is left out.
        """
        points = [
            (math.log(size), math.log(cost - self.base))
            for size, cost in self.costs.items()
            if cost - self.base > self.base / 10
        ]
        if len(points) < 2:
            return None
        mean_x, mean_y = (sum(each) / len(points) for each in zip(*points, strict=True))
        spread = sum((x - mean_x) ** 2 for x, _ in points)
        return float(sum((x - mean_x) * (y - mean_y) for x, y in points) / spread)

    def figures(self) -> Iterator[Figure]:
        """Yield a figure for each size, and one for the exponent."""
        for size, cost in self.costs.items():
            yield Figure(f"{self.name}, {size:,} {self.of}", self.unit, [cost])
        exponent = self.exponent
        yield Figure(f"{self.name}: exponent of {self.of}", "", [exponent or 0.0], aim=self.aim)


class Cost(NamedTuple):
    """A cost at one size. ``aim`` is that for the exponent of its series."""

    name: str
    unit: str
    size: int
    value: float
    aim: Aim = LINEAR


def collect(of: str, costs: Iterable[Cost]) -> list[Series]:
    """Make the series of these costs; that at size 0 is a series' base."""
    by_name: dict[str, list[Cost]] = {}
    for cost in costs:
        by_name.setdefault(cost.name, []).append(cost)
    return [
        Series(
            name,
            some[0].unit,
            of,
            {cost.size: cost.value for cost in some if cost.size},
            some[0].aim,
            next((cost.value for cost in some if not cost.size), 0),
        )
        for name, some in by_name.items()
    ]
