"""Bins and ranks, against plain Python."""

from random import Random

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from mocketmq_report.compute import bins
from tests.support.oracle import bin_of, in_bins, nearest

CUTOFFS_US = [0, 10_000, 60_000_000]


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> list[Row]:
    """Values of every size, and the values around each power of two."""
    random = Random(1)
    edges = [(1 << bits) + near for bits in range(62) for near in (-1, 0, 1)]
    values = [*edges, *(random.getrandbits(random.randrange(1, 62)) for _ in range(500)), *CUTOFFS_US, 10_001]
    values += [-value for value in values]
    value = F.col("value")
    return (
        spark.createDataFrame([(value,) for value in values], "value long")
        .coalesce(1)
        .select(
            "value",
            bins.lowest(value).alias("low"),
            bins.highest(bins.lowest(value)).alias("high"),
            bins.lowest(value, 1).alias("coarse"),
            bins.key(value, CUTOFFS_US).alias("split"),
            bins.key(value, []).alias("whole"),
        )
        .collect()
    )


def test_a_key_is_the_lowest_value_of_the_bin(found: list[Row]) -> None:
    for row in found:
        assert range(row.low, row.high + 1) == bin_of(row.value)
        assert row.coarse == bin_of(row.value, 2).start
        assert row.whole == row.low


def test_bins_are_a_thousandth_wide_at_most(found: list[Row]) -> None:
    for row in found:
        assert row.low <= row.value <= row.high
        assert row.high - row.low <= abs(row.value) * bins.ERROR


def test_bins_are_split_behind_cutoffs(found: list[Row]) -> None:
    key = in_bins(CUTOFFS_US)
    for row in found:
        assert row.split == key(row.value)
        assert all((row.value <= cutoff) == (row.split <= cutoff) for cutoff in CUTOFFS_US)


@pytest.mark.parametrize("count", [1, 2, 99, 100, 999, 1000])
def test_a_percentile_is_the_nearest_rank(spark: SparkSession, count: int) -> None:
    percentiles = [0.1, 12.5, 33.3, 50, 90, 99, 99.9]
    values = [Random(count).randrange(50) for _ in range(count)]
    rows = spark.createDataFrame([(value,) for value in values], "value long").coalesce(1).groupBy("value")
    counts = rows.agg(F.count("*").alias("count"), F.max("value").alias("most"))
    found = bins.ranked(counts, []).agg(*map(bins.percentile, percentiles)).first()
    assert found is not None
    assert list(found) == [nearest(values, each, lambda value: value) for each in percentiles]
