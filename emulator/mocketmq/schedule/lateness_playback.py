"""Play back the lateness of another cluster: distributions, and seeded draws from them.

The nth draw of a level depends only on the seed, the level and n. Every hundred draws contain one from each
percentile, evenly spread within the percentile. A few hundred messages thus reproduce the recorded quantiles.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Final

RECORDED: Final = "recorded lateness"
"""Cause named in the ledger. It contains a space, so no fault rule can have the same name."""

_STRATA: Final = 100
_GOLDEN: Final = 0.6180339887498949
"""Fraction of the golden ratio. Any number of its multiples, modulo 1, are spread evenly between 0 and 1."""
_MOST_POINTS: Final = 10_000


class LatenessDistribution:
    """Lateness in microseconds; early messages count as on time.

    ``points`` are pairs of a share of all messages, from 0 to 1, and the maximum lateness within that share.
    """

    def __init__(self, points: Iterable[tuple[float, int]]) -> None:
        ordered = sorted(points)
        self._shares = [share for share, _ in ordered]
        self._values = [max(0, value) for _, value in ordered]

    @classmethod
    def of(cls, lateness_us: Sequence[int]) -> "LatenessDistribution":
        """Make the distribution of one or more measured values."""
        values, count = sorted(lateness_us), len(lateness_us)
        ranks = sorted({count * number // _MOST_POINTS for number in range(_MOST_POINTS)} | {count - 1})
        return cls([(0.0, values[0]), *(((rank + 1) / count, values[rank]) for rank in ranks)])

    def quantile_us(self, share: float) -> int:
        """The lateness that this share of all messages did not exceed."""
        above = min(bisect_left(self._shares, share), len(self._shares) - 1)
        if above == 0:
            return self._values[0]
        low, high = self._shares[above - 1], self._shares[above]
        part = min(1.0, (share - low) / (high - low)) if high > low else 1.0
        return round(self._values[above - 1] + part * (self._values[above] - self._values[above - 1]))


class Playback:
    """Draws how late each message is to be.

    In ``by_level`` the key None stands for messages without a level. Unrecorded levels use ``total``.
    """

    def __init__(
        self, total: LatenessDistribution, by_level: Mapping[int | None, LatenessDistribution], seed: int = 0
    ) -> None:
        self._total = total
        self._by_level = by_level
        self._seed = seed
        self._drawn: Counter[int | None] = Counter()
        self._orders: dict[int | None, list[int]] = {}

    def draw_us(self, level: int | None) -> int:
        """Draw the lateness of the level's next message, in microseconds."""
        number = self._drawn[level]
        self._drawn[level] += 1
        block, place = divmod(number, _STRATA)
        if place == 0 or level not in self._orders:
            order = list(range(_STRATA))
            Random(f"{self._seed}/{level}/{block}").shuffle(order)  # noqa: S311 - reproducible on purpose
            self._orders[level] = order
        stratum = self._orders[level][place]
        begin = Random(f"{self._seed}/{level}/of {stratum}").random()  # noqa: S311 - the same
        share = (stratum + (begin + block * _GOLDEN) % 1) / _STRATA
        return self._by_level.get(level, self._total).quantile_us(share)

    def take_back(self, level: int | None) -> None:
        """Undo the last draw of the level."""
        self._drawn[level] -= 1
        self._orders.pop(level, None)

    def begin_again(self) -> None:
        """Repeat the sequence of draws from the start."""
        self._drawn.clear()
        self._orders.clear()
