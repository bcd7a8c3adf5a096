"""Count microseconds in log-linear bins, as HdrHistogram does with three significant digits.

A value is counted under its key, the lowest value of its bin. Below 2048 a bin is one microsecond wide, above
it is at most a thousandth of its value wide. Negative values have the mirrored bins. Beside the count a bin
keeps the greatest value that was seen in it, and a percentile reports that: a value that occurred, and no
further off than its bin is wide. Exact figures use the same code with bins of width one.

Everything is an expression over columns, so that it runs in the JVM, on executors without our code.
"""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

ERROR: Final = 0.001
"""The greatest error of a percentile from bins, as a share of its value."""

FINE: Final = 10
"""Bits that a bin keeps of a value after its first bit: three significant digits."""


def lowest(value: Column, bits: int = FINE) -> Column:
    """The lowest value of the bin: the value with all but its first ``bits`` + 1 bits cleared.

    A coarser bin, of fewer bits, is a union of finer ones.
    """
    return value.bitwiseAND(F.bitwise_not(_behind(value, bits)))


def highest(low: Column, bits: int = FINE) -> Column:
    """The highest value of the bin whose lowest is ``low``."""
    return low.bitwiseOR(_behind(low, bits))


def _behind(value: Column, bits: int) -> Column:
    """A mask of the bits in which values of one bin differ. Two's complement mirrors negative values.

    This is a chain of comparisons: arithmetic would use the value twice in each step, and double the plan.
    """
    size = 2 << bits
    rest = F.when(value.between(-size, size - 1), 0)
    for behind in range(1, 62 - bits):
        size *= 2
        rest = rest.when(value.between(-size, size - 1), (1 << behind) - 1)
    return rest.otherwise((1 << (62 - bits)) - 1)


def key(value: Column, cutoffs_us: Sequence[int]) -> Column:
    """The key of a value: its bin, split after each cutoff so that counts up to the cutoff are exact."""
    low = lowest(value)
    splits = [F.when(value > cutoff, cutoff + 1) for cutoff in cutoffs_us]
    return F.greatest(low, *splits) if splits else low


def ranked(counts: DataFrame, by: Sequence[str]) -> DataFrame:
    """Add ``upto``, how many values are not greater, and ``total`` to rows of ``value`` and ``count``."""
    group = Window.partitionBy(*by)
    return counts.withColumns(
        {
            "upto": F.sum("count").over(group.orderBy("value").rowsBetween(Window.unboundedPreceding, 0)),
            "total": F.sum("count").over(group),
        }
    )


def percentile(percentile: float) -> Column:
    """An aggregate over ``ranked`` rows of a group: the ``most`` of the bin that has the nearest rank.

    Null if the group is so small that no value would lie beyond the percentile.
    """
    # Of the decimal number as written: 99.9 leaves 0.1 %, which the nearest binary number does not.
    beyond = 1 - Fraction(Decimal(str(percentile))) / 100
    later = F.expr(f"total * {beyond.numerator}L div {beyond.denominator}L")
    return F.min(F.when((later >= 1) & (F.col("upto") >= F.col("total") - later), F.col("most")))
