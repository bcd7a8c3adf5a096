"""Play back the lateness of another cluster: distributions, and seeded draws from them.

The nth draw of a level depends only on the seed, the level and n. Each hundred draws take one from every
percentile, evenly spread within it, so that a few hundred messages reproduce the recorded quantiles.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Final

RECORDED: Final = "recorded lateness"
"""What the ledger names as the cause. No rule for faults can have this name, as it has a space."""

_STRATA: Final = 100
_GOLDEN: Final = 0.6180339887498949
"""Multiples of it, modulo 1, lie evenly between 0 and 1, however many they are."""
_MOST_POINTS: Final = 10_000


class Distribution:
    """Lateness in microseconds; early messages count as on time.

    ``points`` are pairs of a share of all messages, from 0 to 1, and the greatest lateness in that share.
    """

    def __init__(self, points: Iterable[tuple[float, int]]) -> None:
        ordered = sorted(points)
        self._shares = [share for share, _ in ordered]
        self._values = [max(0, value) for _, value in ordered]

    @classmethod
    def of(cls, lateness_us: Sequence[int]) -> "Distribution":
        """The distribution of what was measured, of which there is something."""
        values, count = sorted(lateness_us), len(lateness_us)
        ranks = sorted({count * number // _MOST_POINTS for number in range(_MOST_POINTS)} | {count - 1})
        return cls([(0.0, values[0]), *(((rank + 1) / count, values[rank]) for rank in ranks)])

    def quantile_us(self, share: float) -> int:
        """What this share of all messages was not later than."""
        above = min(bisect_left(self._shares, share), len(self._shares) - 1)
        if above == 0:
            return self._values[0]
        low, high = self._shares[above - 1], self._shares[above]
        part = min(1.0, (share - low) / (high - low)) if high > low else 1.0
        return round(self._values[above - 1] + part * (self._values[above] - self._values[above - 1]))


class Playback:
    """Draws how late each message is to be.

    ``by_level`` has None for messages without a level. Levels that the recording lacks take ``total``.
    """

    def __init__(
        self, total: Distribution, by_level: Mapping[int | None, Distribution], seed: int = 0
    ) -> None:
        self._total = total
        self._by_level = by_level
        self._seed = seed
        self._drawn: Counter[int | None] = Counter()
        self._orders: dict[int | None, list[int]] = {}

    def draw_us(self, level: int | None) -> int:
        """How late the next message of the level is to be, in microseconds."""
        number = self._drawn[level]
        self._drawn[level] += 1
        block, place = divmod(number, _STRATA)
        if place == 0 or level not in self._orders:
            order = list(range(_STRATA))
            Random(f"{self._seed}/{level}/{block}").shuffle(order)  # noqa: S311 - reproducible by purpose
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
        """Draw as from the start."""
        self._drawn.clear()
        self._orders.clear()
