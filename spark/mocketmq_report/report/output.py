"""Writes a report as a page, JSON, Markdown and JUnit XML, to a directory or an object store."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from mocketmq.errors import EmulatorError
from mocketmq_report.document import Report
from mocketmq_report.judge.drawn_limits import DrawnLimit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE: Final = "report.html"


class WriteError(EmulatorError):
    """The report cannot be written to the given path or URL."""


def json(report: Report) -> bytes:
    """Encode the report as ``docs/report.schema.json`` describes it."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1)


def check_out(out: str) -> None:
    """Raise WriteError before the work begins, if writing to this path is certain to fail."""
    if "://" not in out and Path(out).exists() and not Path(out).is_dir():
        raise WriteError(f"{out} cannot be written: it is a file; give a directory or a new name")


def write(
    report: Report,
    out: str,
    limits: Sequence[DrawnLimit] = (),
    *,
    spark: "Callable[[], SparkSession] | None" = None,
) -> str:
    """Write all forms to ``out``, a directory or a URL, and return the page's path. Raises WriteError.

    ``limits`` are drawn on the page. A URL needs Spark.
    """
    # Imported here, because importing charts takes long, and Spark starts in the meantime.
    from mocketmq_report.report.html import html  # noqa: PLC0415
    from mocketmq_report.report.junit import junit  # noqa: PLC0415
    from mocketmq_report.report.markdown import markdown  # noqa: PLC0415

    forms = {
        PAGE: html(report, limits).encode(),
        "report.json": json(report),
        "report.md": markdown(report).encode(),
        "junit.xml": junit(report).encode(),
    }
    place = put
    if "://" in out:
        if spark is None:
            raise WriteError(f"{out} can only be written by Spark: report without --quick, or to a directory")
        spark()  # start the JVM, which writes the files
        place = _upload
    for name, content in forms.items():
        place(f"{out.rstrip('/')}/{name}", content)
    return f"{out.rstrip('/')}/{PAGE}"


def put(name: str, content: bytes) -> None:
    """Write a file, creating its directory if necessary. Raises WriteError."""
    path = Path(name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise WriteError(f"{error.filename or path} cannot be written: {error.strerror}") from error


def _upload(name: str, content: bytes) -> None:
    """Write through Hadoop to any object store that Spark reads."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - only if a URL is given

    from mocketmq_report import jvm  # noqa: PLC0415

    path = jvm.jvm().org.apache.hadoop.fs.Path(name)
    try:
        file = path.getFileSystem(jvm.hadoop_configuration()).create(path, True)
        try:
            file.write(content)
        finally:
            file.close()
    except Py4JJavaError as error:
        raise WriteError(f"{name} cannot be written: {error.java_exception}") from error
