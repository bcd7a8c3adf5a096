"""Starts the Spark session of a report."""

import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from mocketmq_report import jvm
from mocketmq_report.class_archive import ClassArchive
from mocketmq_report.java import check_java

_SETTINGS: Final = {
    "spark.driver.memory": "2g",  # if this process starts the JVM
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # "false" halves the time to build a plan
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}

_OPTIONS_OF_JVMS: Final = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")
"""Environment variables with options of Spark's JVM, and of the launcher's JVM."""
_LITTLE_WORK: Final = "-XX:TieredStopAtLevel=1"
"""Option for JVMs with little work, because Java's second compiler would cost more than it saves."""


class BackgroundSpark:
    """Spark, starting in the background. The session is created on first use."""

    def __init__(self, context: Future[SparkContext]) -> None:
        self._context = context
        self._session: SparkSession | None = None

    def context(self) -> SparkContext:
        """Spark's context, once Spark has started. Raises JavaError."""
        return self._context.result()

    def __call__(self) -> SparkSession:
        """Spark's session, once Spark has started. Raises JavaError."""
        if self._session is None:
            self._session = SparkSession(self.context())
        return self._session

    def stop(self) -> None:
        (self._session or self.context()).stop()


@contextmanager
def session(*, master: str | None = None, chatter: bool = False) -> Iterator[SparkSession]:
    """Start a session and stop it at the end; under spark-submit, use the submitted session.

    ``chatter`` lets Spark log to stderr. Raises JavaError.
    """
    with starting(master=master, chatter=chatter) as spark:
        yield spark()


@contextmanager
def starting(
    *,
    master: str | None = None,
    chatter: bool = False,
    is_carrier: bool = False,
    archive: ClassArchive | None = None,
) -> Iterator[BackgroundSpark]:
    """Start Spark in the background, and stop it at the end.

    With ``is_carrier`` Spark itself reads no data, and its JVM starts with less CPU time. An ``archive`` of
    classes also saves CPU time. A JVM must end to make the archive, and this process cannot start another.
    """
    with archive or nullcontext(), ThreadPoolExecutor(1, "spark-start") as thread:
        context = thread.submit(_start, master, chatter, is_carrier, archive)
        spark = BackgroundSpark(context)
        try:
            yield spark
        finally:
            if context.exception() is None:
                spark.stop()


def _start(master: str | None, chatter: bool, is_carrier: bool, archive: ClassArchive | None) -> SparkContext:
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # the variable is set if a JVM started this process
        java = check_java()
        for name in _OPTIONS_OF_JVMS if is_carrier else ():
            os.environ.setdefault(name, _LITTLE_WORK)
        if archive is not None:
            of_spark = _OPTIONS_OF_JVMS[0]
            os.environ[of_spark] = f"{archive.options(java)} {os.environ.get(of_spark, '')}".strip()
    elif archive is not None:
        archive.fail("spark-submit has started the JVM")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = SparkConf().setAppName("mocketmq report").setAll([*_SETTINGS.items()])
    if master is not None:
        settings.setMaster(master)
    context = SparkContext.getOrCreate(settings) if chatter else _started_silently(settings)
    if archive is not None:
        archive.jvm = jvm.process()
    context.setLogLevel("WARN" if chatter else "OFF")
    return context


def _started_silently(settings: SparkConf) -> SparkContext:
    """Start a context with a silent JVM, whose output is shown only if the start fails."""
    if jvm.gateway() is not None:  # an earlier report has started the JVM
        return SparkContext.getOrCreate(settings)
    with tempfile.TemporaryFile() as said:
        try:
            gateway = launch_gateway(settings, {"stderr": said})  # type: ignore[no-untyped-call]
            return SparkContext(conf=settings, gateway=gateway)
        except BaseException:
            said.seek(0)
            sys.stderr.write(said.read().decode(errors="replace"))
            raise
