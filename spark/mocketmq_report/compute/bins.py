"""Counts microseconds in log-linear bins, as HdrHistogram does with three significant digits.

The key of a value is the lowest value of its bin. Below 2048 a bin is one microsecond wide, above that at
most a thousandth of its value. Negative values have mirrored bins. A bin keeps its count and its greatest
value. A percentile reports this greatest value, which is a measured value, and whose error is less than the
width of the bin. Exact figures use the same code with bins of width one.
"""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np

from mocketmq_report.ledger.codes import Codes, of_numbers

Ints = np.ndarray[Any, np.dtype[np.int64]]

ERROR: Final = 0.001
"""The maximum error of a percentile from bins, as a share of its value."""

FINE: Final = 10
"""Number of bits that a bin keeps after a value's first set bit; enough for three significant digits."""

BLOCK: Final = 1 << 15
"""Number of values processed together, so that intermediate results stay in a processor's cache."""

_MANTISSA: Final = 52  # number of stored bits of a double's significand
_BIAS: Final = 1024  # the bias of a double's exponent, plus one
_LEAST: Final = np.iinfo(np.int64).min


def lowest(values: Ints, bits: int = FINE) -> Ints:
    """Return the lowest value of each bin: the value with all but its first ``bits`` + 1 bits cleared.

    A coarser bin, with fewer bits, is a union of finer bins.
    """
    has_sign = values.min(initial=0) < 0
    cleared = _sizes(values, bits, has_sign=has_sign).astype(np.float64).view(np.int64) & ~(
        (1 << _MANTISSA - bits) - 1
    )
    low: Ints = cleared.view(np.float64).astype(np.int64)
    if not has_sign:
        return low
    return np.where(values < 0, ~highest(low, bits), low)


def highest(lows: Ints, bits: int = FINE) -> Ints:
    """Return the highest value of each bin, given the lowest."""
    _, lengths = np.frexp(_sizes(lows, bits, has_sign=True).astype(np.float64))
    highs: Ints = lows | (np.int64(1) << np.maximum(lengths.astype(np.int64) - 1 - bits, 0)) - 1
    return highs


def _sizes(values: Ints, bits: int, *, has_sign: bool | np.bool_) -> Ints:
    """Return values of the same bins that are exact as doubles. Two's complement mirrors negative values."""
    sizes = values ^ (values >> 63) if has_sign else values
    if sizes.max(initial=0) >> _MANTISSA + 1:
        sizes = np.where(sizes >> _MANTISSA + 1, sizes & -(1 << _MANTISSA - bits), sizes)
    return sizes


def numbers(values: Ints, bits: int = FINE) -> Ints:
    """Return the numbers of the bins; the bin of 0 has number 0."""
    has_sign = values.min(initial=0) < 0
    sizes = _sizes(values, bits, has_sign=has_sign)
    first = 2 << bits  # the least value whose bin has more than one value
    found: Ints = sizes.astype(np.float64).view(np.int64)
    found >>= _MANTISSA - bits
    found -= ((_BIAS + bits) << bits) - first
    np.copyto(found, sizes, where=sizes < first)
    if has_sign:
        found ^= values >> 63
    return found


def keys(values: Ints, cutoffs_us: Sequence[int] | None) -> Ints:
    """Return the bin of each value, split after each cutoff so that counts up to the cutoff are exact.

    Without cutoffs each value has its own bin.
    """
    if cutoffs_us is None:
        return values
    lows = lowest(values)
    for cutoff in cutoffs_us:
        np.maximum(lows, np.where(values > cutoff, cutoff + 1, _LEAST), out=lows)
    return lows


def codes(values: Ints, cutoffs_us: Sequence[int] | None, bits: int = FINE) -> Codes:
    """Return the codes of the values' bins. Without cutoffs each value has its own bin."""
    if cutoffs_us is None or not len(values):
        return of_numbers(values)
    least, most = _split(np.array([values.min(), values.max()]), cutoffs_us, bits).tolist()
    found = np.empty(len(values), np.int64)
    for start in range(0, len(values), BLOCK):
        block = slice(start, start + BLOCK)
        np.subtract(_split(values[block], cutoffs_us, bits), least, out=found[block])
    return Codes(found, most - least + 1)


def _split(values: Ints, cutoffs_us: Sequence[int], bits: int) -> Ints:
    """Return the numbers of the bins after a split at each cutoff."""
    found, most = numbers(values, bits), values.max()
    for cutoff in cutoffs_us:
        if most > cutoff:
            found += values > cutoff
    return found


def rank_of(percentile: float, upto: Ints) -> int | None:
    """Return the index of a percentile by nearest rank, given the number of values up to each value.

    Returns None if there are too few values, so that none would be beyond the percentile.
    """
    # Decimal, because 100 - 99.9 must be exactly 0.1, which it is not in binary.
    beyond = 1 - Fraction(Decimal(str(percentile))) / 100
    total = int(upto[-1])
    later = total * beyond.numerator // beyond.denominator
    return int(np.searchsorted(upto, total - later)) if later else None
