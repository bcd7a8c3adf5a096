"""A Spark that runs already, for what would start one."""

from typing import NamedTuple

from pyspark import SparkContext
from pyspark.sql import SparkSession


class Running(NamedTuple):
    """The Spark of this session."""

    session: SparkSession

    def context(self) -> SparkContext:
        """Its context."""
        return self.session.sparkContext

    def __call__(self) -> SparkSession:
        """The session."""
        return self.session
