"""Access to PySpark's JVM through private names of PySpark. No other file may use private names of PySpark.

PySpark has no public names for this. ``tests/unit/test_private_names.py`` lists the checked versions.
"""

from subprocess import Popen
from typing import Any

from pyspark import SparkContext


def gateway() -> Any:
    """Return Py4J's gateway to the JVM; None until this process or spark-submit has started the JVM."""
    return SparkContext._gateway


def jvm() -> Any:
    """Return Java's packages. Spark must have started."""
    return gateway().jvm


def hadoop_configuration() -> Any:
    """Return the configuration of Hadoop's file systems. Spark must have started."""
    return jvm().org.apache.spark.SparkContext.getOrCreate().hadoopConfiguration()


def process() -> "Popen[Any] | None":
    """Return the JVM's process; None if this process did not start the JVM."""
    return getattr(gateway(), "proc", None)
