"""Finds files and folders on this machine or at a URL such as ``s3a://bucket/ledgers``.

Missing and unreadable files and folders raise BrokenLedgerError. Names that begin with ``_`` or ``.`` are
skipped, as Spark does.
"""

import io
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple, cast
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from mocketmq_report.ledger.ledger import BrokenLedgerError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mocketmq_report.ledger.hadoop_places import HadoopPlaces

HIDDEN: Final = ("_", ".")
PACKINGS: Final = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
"""Compression formats of texts that Python reads, by suffix."""

_CODED: Final = re.compile(r"^dictionary<values=(\w+), .*>$")
_PATTERN: Final = re.compile(r"[\[\]{}*?\\]")


class DataLocation(NamedTuple):
    """An existing file or folder."""

    name: str
    url: str
    uri: str  # the path or URL, escaped
    is_folder: bool
    size: int = 0  # of a file, in bytes

    @property
    def pattern(self) -> str:
        """The path for Spark's readers, with the characters of patterns escaped."""
        return _PATTERN.sub(r"\\\g<0>", self.url)

    @property
    def local(self) -> Path | None:
        """The path on this machine, or None."""
        scheme, _, path = self.url.partition(":")
        return Path(path) if scheme == "file" else None

    def __str__(self) -> str:
        return str(self.local or self.url)


def files(places: "Places | HadoopPlaces", folder: DataLocation) -> list[DataLocation]:
    """Return all files below a folder."""
    return [
        file for each in places.inside(folder) for file in (files(places, each) if each.is_folder else [each])
    ]


def is_here(data: str) -> bool:
    """Return whether a path or URL is on this machine."""
    return not re.match(r"\w+:/", data) or data.startswith("file:/")


def opened(path: str) -> IO[bytes]:
    """Open a text, and decompress it if its suffix says so."""
    packing = PACKINGS.get(path.rpartition(".")[2])
    file = Path(path).open("rb")  # noqa: SIM115 - closing the returned file closes it
    return cast("IO[bytes]", pa.CompressedInputStream(file, packing)) if packing else file


def said(error: Exception) -> str:
    """Describe an error in one line."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return reason.partition("\n")[0]


class LocalPlaces:
    """Files of this machine."""

    def find_data(self, data: str) -> DataLocation:
        """Look up a path or a URL."""
        path = Path(unquote(urlsplit(data).path)) if data.startswith("file:/") else Path(data)
        try:
            path.stat()
        except OSError as error:
            raise BrokenLedgerError(f"it cannot be read: {error.strerror}") from error
        return self._place(path.resolve())

    def inside(self, folder: DataLocation) -> list[DataLocation]:
        """Return the entries of a folder, by name."""
        try:
            found = [
                self._place(path)
                for path in Path(str(folder)).iterdir()
                if not path.name.startswith(HIDDEN) and path.exists()
            ]
        except OSError as error:
            raise BrokenLedgerError(f"it cannot be read: {error.strerror}") from error
        return sorted(found)

    def parquet_columns(self, file: DataLocation) -> dict[str, str]:
        """Return the columns of a Parquet file, with their types."""
        try:
            schema = pq.read_schema(str(file))
        except (OSError, pa.ArrowException) as error:
            raise BrokenLedgerError(f"it is damaged, or no Parquet file: {said(error)}") from error
        return {field.name: _CODED.sub(r"dictionary<\1>", str(field.type)) for field in schema}

    def head(self, file: DataLocation, most: int) -> list[str]:
        """Read the first lines of a text, decompressed if its suffix says so."""
        try:
            with opened(str(file)) as stream:
                text = io.TextIOWrapper(stream, "utf-8", "replace", newline="\n")
                return [line.rstrip("\r\n") for line in islice(text, most)]
        except OSError as error:
            raise BrokenLedgerError(f"it cannot be read: {said(error)}") from error

    def _place(self, path: Path) -> DataLocation:
        uri = path.as_uri().replace("file:///", "file:/")
        return DataLocation(path.name, f"file:{path}", uri, path.is_dir(), path.stat().st_size)


SparkStarter = Callable[[], "SparkSession"]
"""Starts Spark, or returns the started session."""


class Places:
    """Local files, and files at URLs through Spark."""

    def __init__(self, spark: SparkStarter | None) -> None:
        self._spark = spark
        self._here = LocalPlaces()

    def find_data(self, data: str) -> DataLocation:
        """Look up a path or a URL."""
        return self._of(data).find_data(data)

    def inside(self, folder: DataLocation) -> list[DataLocation]:
        """Return the entries of a folder, by name."""
        return self._of(folder.url).inside(folder)

    def parquet_columns(self, file: DataLocation) -> dict[str, str]:
        """Return the columns of a Parquet file, with their types."""
        return self._of(file.url).parquet_columns(file)

    def head(self, file: DataLocation, most: int) -> list[str]:
        """Read the first lines of a text, decompressed if its suffix says so."""
        return self._of(file.url).head(file, most)

    def spark(self) -> "SparkSession":
        """Return Spark's session. Raises BrokenLedgerError for a quick report."""
        if self._spark is None:
            raise BrokenLedgerError("only Spark can read it: report without --quick")
        return self._spark()

    def hadoop(self) -> "HadoopPlaces":
        """Return access to all files through Spark, even to files of this machine."""
        from mocketmq_report.ledger.hadoop_places import HadoopPlaces  # noqa: PLC0415 - only if it is needed

        self.spark()  # starts the JVM
        return HadoopPlaces()

    def _of(self, data: str) -> "LocalPlaces | HadoopPlaces":
        return self._here if is_here(data) else self.hadoop()
