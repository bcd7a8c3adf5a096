"""Small tables in folders of Parquet files, as in rollups."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mocketmq.errors import StoreUnavailableError
from mocketmq_report.ledger.ledger import BrokenLedgerError
from mocketmq_report.ledger.places import HIDDEN, Places, SparkStarter, is_here


class TableFiles:
    """Reads and writes tables in folders, and through Spark also at URLs."""

    def __init__(self, spark: SparkStarter | None) -> None:
        self._spark = Places(spark).spark

    def read(self, folders: Sequence[str]) -> pa.Table:
        """Read the tables in these folders as one. Raises BrokenLedgerError."""
        tables = []
        for folder in folders:
            if is_here(folder):
                tables.append(_read(Path(folder)))
            else:
                tables.append(self._spark().read.parquet(folder).toArrow())
        return pa.concat_tables(tables, promote_options="permissive")

    def write(self, table: pa.Table, folder: str) -> None:
        """Write a table into a folder, replacing an earlier one. Raises StoreUnavailableError."""
        if not is_here(folder):
            frame = self._spark().createDataFrame(table.combine_chunks())
            frame.coalesce(1).write.mode("overwrite").parquet(folder)
            return
        try:
            shutil.rmtree(folder, ignore_errors=True)
            Path(folder).mkdir(parents=True)
            pq.write_table(table, Path(folder, "part-0.parquet"), compression="zstd")
        except OSError as error:
            raise StoreUnavailableError(f"{folder} cannot be written: {error.strerror or error}") from error


def _read(folder: Path) -> pa.Table:
    try:
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith(HIDDEN))
        return pa.concat_tables([pq.ParquetFile(path).read() for path in paths])
    except OSError as error:
        raise BrokenLedgerError(f"{folder}: {error.strerror or error}") from error
    except pa.ArrowException as error:
        raise BrokenLedgerError(f"{folder}: {str(error).partition(chr(10))[0]}") from error
