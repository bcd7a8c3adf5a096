"""A ledger in Spark: the three frames that every source is read into, with the columns of ``columns``."""

from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from mocketmq.errors import EmulatorError
from mocketmq_report.ledger import columns

_SPARK_TYPES: Final[dict[pa.DataType, DataType]] = {
    pa.string(): StringType(),
    pa.int64(): LongType(),
    pa.int32(): IntegerType(),
    pa.bool_(): BooleanType(),
}


def _in_spark(schema: pa.Schema) -> StructType:
    return StructType([StructField(field.name, _SPARK_TYPES[field.type]) for field in schema])


DELIVERIES: Final = _in_spark(columns.DELIVERIES)
RUNS: Final = _in_spark(columns.RUNS)
MOVES: Final = _in_spark(columns.MOVES)


class LedgerFrames(NamedTuple):
    """A ledger read from one source or many: frames of ``DELIVERIES``, ``RUNS`` and ``MOVES``."""

    deliveries: DataFrame
    runs: DataFrame
    moves: DataFrame


class BrokenLedgerError(EmulatorError):
    """A file or directory cannot be read as a ledger; the sentence says why, and what can be."""
