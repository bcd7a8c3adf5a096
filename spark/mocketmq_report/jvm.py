"""Reach the JVM of PySpark, for which it has no public name: no other file uses a private name of it.

``tests/unit/test_private_names.py`` lists the versions of PySpark in which the name was checked.
"""

from subprocess import Popen
from typing import Any

from pyspark import SparkContext


def gateway() -> Any:
    """Py4J's gateway to the JVM that this process, or spark-submit, has started; None before."""
    return SparkContext._gateway


def jvm() -> Any:
    """Java's packages, once Spark has started."""
    return gateway().jvm


def hadoop_configuration() -> Any:
    """The configuration of Hadoop's file systems, once Spark has started."""
    return jvm().org.apache.spark.SparkContext.getOrCreate().hadoopConfiguration()


def process() -> "Popen[Any] | None":
    """The JVM's process, if this one has started it."""
    return getattr(gateway(), "proc", None)
