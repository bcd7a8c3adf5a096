"""Finds files and folders in all of Spark's file systems, which are Hadoop's."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from mocketmq_report import jvm
from mocketmq_report.ledger.ledger import BrokenLedgerError
from mocketmq_report.ledger.places import HIDDEN, DataLocation

FAILURES: Final = (Py4JJavaError, PySparkException)
"""The errors of Spark and Hadoop."""

_FIELD: Final = re.compile(r"^  \w+ (\w+)(?:\(\d+\))? (.+?)(?: \((.*)\))?(?: = \d+)?(?:;| \{)$", re.MULTILINE)


def file_of_row() -> Column:
    """Return the ``uri`` of a row's file. Removes extra slashes, in which local paths differ."""
    return F.regexp_replace("_metadata.file_path", "^file:/+", "file:/")


class HadoopPlaces:
    """Looks at files through the JVM of a started Spark."""

    def __init__(self) -> None:
        self._jvm = jvm.jvm()
        self._hadoop = self._jvm.org.apache.hadoop
        self._conf = jvm.hadoop_configuration()

    def find_data(self, data: str) -> DataLocation:
        """Look up a path or a URL."""
        with _failing():
            if re.match(r"\w+:/", data):
                path = self._hadoop.fs.Path(data)
            else:
                path = self._hadoop.fs.Path(self._jvm.java.io.File(str(Path(data).resolve())).toURI())
            return _place(path.getFileSystem(self._conf).getFileStatus(path))

    def inside(self, folder: DataLocation) -> list[DataLocation]:
        """Return the entries of a folder by name, without the entries that Spark skips."""
        path = self._hadoop.fs.Path(folder.url)
        with _failing():
            found = [_place(status) for status in path.getFileSystem(self._conf).listStatus(path)]
        return sorted(each for each in found if not each.name.startswith(HIDDEN))

    def head(self, file: DataLocation, most: int) -> list[str]:
        """Read the first lines of a text, decompressed if its suffix says so."""
        path = self._hadoop.fs.Path(file.url)
        lines: list[str] = []
        with _failing():
            stream = path.getFileSystem(self._conf).open(path)
            try:
                codec = self._hadoop.io.compress.CompressionCodecFactory(self._conf).getCodec(path)
                plain = codec.createInputStream(stream) if codec else stream
                reader = self._jvm.java.io.BufferedReader(self._jvm.java.io.InputStreamReader(plain, "UTF-8"))
                while len(lines) < most and (line := reader.readLine()) is not None:
                    lines.append(line)
            finally:
                stream.close()
        return lines

    def parquet_columns(self, file: DataLocation) -> dict[str, str]:
        """Return the columns of a Parquet file, with Parquet's names of their types."""
        parquet = self._jvm.org.apache.parquet.hadoop
        with _failing("it is damaged, or no Parquet file"):
            source = parquet.util.HadoopInputFile.fromPath(self._hadoop.fs.Path(file.url), self._conf)
            reader = parquet.ParquetFileReader.open(source)
            try:
                schema = reader.getFooter().getFileMetaData().getSchema().toString()
            finally:
                reader.close()
        return {name: f"{kind} ({note})" if note else kind for kind, name, note in _FIELD.findall(schema)}


def reason_of(error: Exception) -> str:
    """Describe an error of Spark or Hadoop in one line, without names of Java classes."""
    text = str(error.java_exception if isinstance(error, Py4JJavaError) else error).strip()
    return re.sub(r"^(?:[\w.$]+(?:Exception|Error): )+", "", text.partition("\n")[0])


@contextmanager
def _failing(what: str = "it cannot be read") -> Iterator[None]:
    try:
        yield
    except FAILURES as error:
        raise BrokenLedgerError(f"{what}: {reason_of(error)}") from error


def _place(status: Any) -> DataLocation:
    path = status.getPath()
    uri = re.sub("^file:/+", "file:/", path.toUri().toString())
    return DataLocation(path.getName(), path.toString(), uri, status.isDirectory(), status.getLen())
