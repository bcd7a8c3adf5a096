"""Bins and ranks, compared with plain Python."""

from random import Random

import numpy as np
import pytest

from mocketmq_report.compute import bins
from tests.support.oracle import bin_of, in_bins, nearest

CUTOFFS_US = [0, 10_000, 60_000_000]


def _values() -> list[int]:
    """Return values of every size, and the values around each power of two."""
    random = Random(1)
    edges = [(1 << bits) + near for bits in range(62) for near in (-1, 0, 1)]
    values = [*edges, *(random.getrandbits(random.randrange(1, 62)) for _ in range(500)), *CUTOFFS_US, 10_001]
    return values + [-value for value in values]


VALUES = _values()
ARRAY = np.array(VALUES, np.int64)


@pytest.mark.parametrize("bits", [0, 1, 6, bins.FINE])
def test_bins_are_those_of_plain_python(bits: int) -> None:
    lows = bins.lowest(ARRAY, bits)
    highs = bins.highest(lows, bits)
    found = [range(low, high + 1) for low, high in zip(lows.tolist(), highs.tolist(), strict=True)]
    assert found == [bin_of(value, 1 << bits) for value in VALUES]


@pytest.mark.parametrize("bits", [0, 1, 6, bins.FINE])
def test_bins_are_numbered_in_order(bits: int) -> None:
    lows, numbers = bins.lowest(ARRAY, bits), bins.numbers(ARRAY, bits)
    in_order = np.argsort(ARRAY)
    assert ((np.diff(lows[in_order]) > 0) == (np.diff(numbers[in_order]) > 0)).all()
    assert (np.diff(numbers[in_order]) >= 0).all()
    assert bins.numbers(np.arange(-8 << bits, 8 << bits), bits).tolist() == sorted(
        sign * number - (sign < 0) for sign in (1, -1) for number in _numbers_below(8 << bits, bits)
    )


def _numbers_below(limit: int, bits: int) -> list[int]:
    """Return the bin numbers of 0, 1, 2 and so on."""
    lows = [bin_of(value, 1 << bits)[0] for value in range(limit)]
    return [sorted({*lows}).index(low) for low in lows]


def test_bins_are_a_thousandth_wide_at_most() -> None:
    lows = bins.lowest(ARRAY)
    for value, low, high in zip(VALUES, lows.tolist(), bins.highest(lows).tolist(), strict=True):
        assert low <= value <= high
        assert high - low <= abs(value) * bins.ERROR


def test_bins_are_split_behind_cutoffs() -> None:
    key = in_bins(CUTOFFS_US)
    splits = bins.keys(ARRAY, CUTOFFS_US).tolist()
    assert splits == [key(value) for value in VALUES]
    for value, split in zip(VALUES, splits, strict=True):
        assert all((value <= cutoff) == (split <= cutoff) for cutoff in CUTOFFS_US)
    assert bins.keys(ARRAY, []).tolist() == bins.lowest(ARRAY).tolist()


def test_values_of_one_bin_share_a_code() -> None:
    small = ARRAY[abs(ARRAY) < 1 << 40]
    for cutoffs in (CUTOFFS_US, [], None):
        keys, codes = bins.keys(small, cutoffs).tolist(), bins.codes(small, cutoffs)
        of_keys = dict(zip(keys, codes.numbers.tolist(), strict=True))
        assert [of_keys[key] for key in keys] == codes.numbers.tolist()
        assert len({*of_keys.values()}) == len(of_keys)
        assert 0 <= codes.numbers.min() <= codes.numbers.max() < codes.size


@pytest.mark.parametrize("count", [1, 2, 99, 100, 999, 1000])
def test_a_percentile_is_the_nearest_rank(count: int) -> None:
    values = [Random(count).randrange(50) for _ in range(count)]
    found, counts = np.unique(values, return_counts=True)
    for percentile in (0.1, 12.5, 33.3, 50, 90, 99, 99.9):
        place = bins.rank_of(percentile, np.cumsum(counts))
        expected = nearest(values, percentile, lambda value: value)
        assert (None if place is None else int(found[place])) == expected
