"""Count microseconds in log-linear bins, as HdrHistogram does with three significant digits.

A value is counted under its key, the lowest value of its bin. Below 2048 a bin is one microsecond wide, above
it is at most a thousandth of its value wide. Negative values have the mirrored bins. Beside the count a bin
keeps the greatest value that was seen in it, and a percentile reports that: a value that occurred, and no
further off than its bin is wide. Exact figures use the same code with bins of width one.
"""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np

from mocketmq_report.ledger.codes import Codes, of_numbers

Ints = np.ndarray[Any, np.dtype[np.int64]]

ERROR: Final = 0.001
"""The greatest error of a percentile from bins, as a share of its value."""

FINE: Final = 10
"""Bits that a bin keeps of a value after its first bit: three significant digits."""

BLOCK: Final = 1 << 15
"""Values that are worked on together: what is made of them stays in a processor's cache."""

_MANTISSA: Final = 52  # bits of a double after its first
_BIAS: Final = 1024  # of the exponent of a double, and one more
_LEAST: Final = np.iinfo(np.int64).min


def lowest(values: Ints, bits: int = FINE) -> Ints:
    """The lowest value of each bin: the value with all but its first ``bits`` + 1 bits cleared.

    A coarser bin, of fewer bits, is a union of finer ones.
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
    """The highest value of each bin, given the lowest."""
    _, lengths = np.frexp(_sizes(lows, bits, has_sign=True).astype(np.float64))
    highs: Ints = lows | (np.int64(1) << np.maximum(lengths.astype(np.int64) - 1 - bits, 0)) - 1
    return highs


def _sizes(values: Ints, bits: int, *, has_sign: bool | np.bool_) -> Ints:
    """Sizes in the same bins that doubles hold exactly. Two's complement mirrors negative values."""
    sizes = values ^ (values >> 63) if has_sign else values
    if sizes.max(initial=0) >> _MANTISSA + 1:
        sizes = np.where(sizes >> _MANTISSA + 1, sizes & -(1 << _MANTISSA - bits), sizes)
    return sizes


def numbers(values: Ints, bits: int = FINE) -> Ints:
    """The numbers of the bins, counted from that of 0, which is 0."""
    has_sign = values.min(initial=0) < 0
    sizes = _sizes(values, bits, has_sign=has_sign)
    first = 2 << bits  # value with more than one value in its bin
    found: Ints = sizes.astype(np.float64).view(np.int64)
    found >>= _MANTISSA - bits
    found -= ((_BIAS + bits) << bits) - first
    np.copyto(found, sizes, where=sizes < first)
    if has_sign:
        found ^= values >> 63
    return found


def keys(values: Ints, cutoffs_us: Sequence[int] | None) -> Ints:
    """The bin of each value, split after each cutoff so that counts up to the cutoff are exact.

    Without cutoffs each value has its own.
    """
    if cutoffs_us is None:
        return values
    lows = lowest(values)
    for cutoff in cutoffs_us:
        np.maximum(lows, np.where(values > cutoff, cutoff + 1, _LEAST), out=lows)
    return lows


def codes(values: Ints, cutoffs_us: Sequence[int] | None, bits: int = FINE) -> Codes:
    """The codes of the values' bins. Without cutoffs each value has its own."""
    if cutoffs_us is None or not len(values):
        return of_numbers(values)
    least, most = _split(np.array([values.min(), values.max()]), cutoffs_us, bits).tolist()
    found = np.empty(len(values), np.int64)
    for start in range(0, len(values), BLOCK):
        block = slice(start, start + BLOCK)
        np.subtract(_split(values[block], cutoffs_us, bits), least, out=found[block])
    return Codes(found, most - least + 1)


def _split(values: Ints, cutoffs_us: Sequence[int], bits: int) -> Ints:
    """The numbers of the bins, when they are split after each cutoff."""
    found, most = numbers(values, bits), values.max()
    for cutoff in cutoffs_us:
        if most > cutoff:
            found += values > cutoff
    return found


def place(percentile: float, upto: Ints) -> int | None:
    """Where the value with the nearest rank of a percentile is, given how many values are not greater.

    None if there are so few that no value would lie beyond the percentile.
    """
    # Of the decimal number as written: 99.9 leaves 0.1 %, which the nearest binary number does not.
    beyond = 1 - Fraction(Decimal(str(percentile))) / 100
    total = int(upto[-1])
    later = total * beyond.numerator // beyond.denominator
    return int(np.searchsorted(upto, total - later)) if later else None
