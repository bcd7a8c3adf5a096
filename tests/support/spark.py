"""A running Spark session, for code that would otherwise start one."""

from typing import NamedTuple

from pyspark import SparkContext
from pyspark.sql import SparkSession


class Running(NamedTuple):
    """Provides this Spark session."""

    session: SparkSession

    def context(self) -> SparkContext:
        """Return the session's context."""
        return self.session.sparkContext

    def __call__(self) -> SparkSession:
        """Return the session."""
        return self.session
