"""A histogram: counts of values by upper bound, and their sum."""

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts whole numbers. Each bound is the largest value that its count includes."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # the last one has no upper bound
        self.sum = 0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def record(self, value: int, times: int = 1) -> None:
        """Count a value, ``times`` times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def __add__(self, other: "Histogram") -> "Histogram":
        total = Histogram(self.bounds)
        total.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        total.sum = self.sum + other.sum
        return total

    def copy(self) -> "Histogram":
        """A histogram with the present counts."""
        other = Histogram(self.bounds)
        other.counts, other.sum = self.counts.copy(), self.sum
        return other
