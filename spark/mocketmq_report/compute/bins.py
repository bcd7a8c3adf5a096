"""Log-linear bins, as HdrHistogram's with three significant digits: 2048 a power of two and below, in µs.

A value is counted under its key, the lowest value of its bin. Below 2048 a bin is one microsecond wide, and
from there on at most a thousandth of its value; negative values have the mirrored bins. Beside the count
a bin keeps the greatest value that was seen in it, and that is what a percentile reports: a value that
occurred, and no further off than its bin is wide. Exact figures are the same with bins of width one.

Everything is an expression over columns, so that it runs inside the JVM, on executors without our code.
"""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

ERROR: Final = 0.001
"""How far a percentile from bins can be off, as a share of its value."""

FINE: Final = 10
"""Bits of a value that its bin keeps behind the first: three significant digits."""


def lowest(value: Column, bits: int = FINE) -> Column:
    """The lowest value of the bin: the value without all that is behind its first ``bits`` + 1 bits.

    A coarser bin, of fewer bits, is a union of finer ones.
    """
    return value.bitwiseAND(F.bitwise_not(_behind(value, bits)))


def highest(low: Column, bits: int = FINE) -> Column:
    """The highest value of the bin in which ``low`` is the lowest."""
    return low.bitwiseOR(_behind(low, bits))


def _behind(value: Column, bits: int) -> Column:
    """The bits in which values of the same bin differ, all set. Two's complement mirrors by itself.

    A chain of comparisons: arithmetic would need the value twice in each step, and the plan grow by doubling.
    """
    size = 2 << bits
    rest = F.when(value.between(-size, size - 1), 0)
    for behind in range(1, 62 - bits):
        size *= 2
        rest = rest.when(value.between(-size, size - 1), (1 << behind) - 1)
    return rest.otherwise((1 << (62 - bits)) - 1)


def key(value: Column, cutoffs_us: Sequence[int]) -> Column:
    """What to count a value under: its bin, split behind each cutoff so that counts up to there are exact."""
    low = lowest(value)
    splits = [F.when(value > cutoff, cutoff + 1) for cutoff in cutoffs_us]
    return F.greatest(low, *splits) if splits else low


def ranked(counts: DataFrame, by: Sequence[str]) -> DataFrame:
    """Adds to rows of ``value`` and ``count``: ``upto``, how many are not later, and ``total``."""
    group = Window.partitionBy(*by)
    return counts.withColumns(
        {
            "upto": F.sum("count").over(group.orderBy("value").rowsBetween(Window.unboundedPreceding, 0)),
            "total": F.sum("count").over(group),
        }
    )


def percentile(percentile: float) -> Column:
    """An aggregate over ``ranked`` rows of a group: the ``most`` of the bin that the nearest rank is in.

    Null where less than one of ``total`` would be beyond it.
    """
    # The share of what was written, 0.1 % of 99.9, which is not that of the nearest binary number.
    beyond = 1 - Fraction(Decimal(str(percentile))) / 100
    later = F.expr(f"total * {beyond.numerator}L div {beyond.denominator}L")
    return F.min(F.when((later >= 1) & (F.col("upto") >= F.col("total") - later), F.col("most")))
