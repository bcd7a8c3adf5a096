"""The session of a report, and the Java that it needs."""

from pyspark.sql import SparkSession


def test_it_counts(spark: SparkSession) -> None:
    assert spark.range(10).count() == 10
