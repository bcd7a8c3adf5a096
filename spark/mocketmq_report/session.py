"""Start the Spark session of a report, and check the Java that it needs."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from mocketmq.errors import EmulatorError
from mocketmq_report import jvm
from mocketmq_report.class_archive import ClassArchive

JAVA: Final = 17
"""The oldest version on which Spark 4.3 runs."""

_ADVICE: Final = (
    f"install a Java runtime {JAVA} or newer (Debian and Ubuntu: openjdk-{JAVA}-jre-headless; macOS:"
    f" brew install openjdk@{JAVA}), or let JAVA_HOME name one; only reports need it, the broker does not"
)


class JavaError(EmulatorError):
    """There is no Java, or it is too old; the sentence says what to install."""


def check_java() -> str:
    """What the Java that Spark would start calls itself. Raises JavaError unless it is new enough."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(Path(home, "bin", "java") if home else "java")
    if java is None:
        where = f"JAVA_HOME is {home}, where there is no bin/java" if home else "there is no java on the PATH"
        raise JavaError(f"lateness reports run on Spark, which needs Java, and {where}: {_ADVICE}")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if answer.returncode or found is None:
        raise JavaError(f"{java} does not run (java -version: {answer.stderr.strip()!r}): {_ADVICE}")
    if int(found[1]) < JAVA:
        raise JavaError(
            f"lateness reports run on Spark, which needs Java {JAVA}, and {java} is {found[1]}: {_ADVICE}"
        )
    return answer.stderr + answer.stdout


_SETTINGS: Final = {
    "spark.driver.memory": "2g",  # if this process starts the JVM
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # otherwise building a plan takes twice as long
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}

_OPTIONS_OF_JVMS: Final = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")
"""Environment variables: of Spark's JVM, and of the one that finds out how to start it."""
_LITTLE_WORK: Final = "-XX:TieredStopAtLevel=1"
"""For a JVM with so little work that its second compiler would take longer than the work."""


class BackgroundSpark:
    """Spark, which starts in the background. Its session is made when it is first asked for."""

    def __init__(self, context: Future[SparkContext]) -> None:
        self._context = context
        self._session: SparkSession | None = None

    def context(self) -> SparkContext:
        """Its context, once it has started. Raises JavaError."""
        return self._context.result()

    def __call__(self) -> SparkSession:
        """Its session, once it has started. Raises JavaError."""
        if self._session is None:
            self._session = SparkSession(self.context())
        return self._session

    def stop(self) -> None:
        """Stop it."""
        (self._session or self.context()).stop()


@contextmanager
def session(*, master: str | None = None, chatter: bool = False) -> Iterator[SparkSession]:
    """A session that is stopped at the end. Under spark-submit it is the submitted one.

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
    """Spark starts while other work is done, and is stopped at the end.

    ``is_carrier`` says that Spark reads no data itself; then its JVM starts with less CPU time. So it does
    with an ``archive`` of its classes; if the JVM makes that, it ends, and this process cannot start another.
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
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # otherwise a JVM started this process
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
    """A context, whose JVM writes to nobody's screen; what it wrote is shown if it does not start."""
    if jvm.gateway() is not None:  # the JVM of an earlier report
        return SparkContext.getOrCreate(settings)
    with tempfile.TemporaryFile() as said:
        try:
            gateway = launch_gateway(settings, {"stderr": said})  # type: ignore[no-untyped-call]
            return SparkContext(conf=settings, gateway=gateway)
        except BaseException:
            said.seek(0)
            sys.stderr.write(said.read().decode(errors="replace"))
            raise
