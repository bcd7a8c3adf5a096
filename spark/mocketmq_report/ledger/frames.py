"""The columns of a ledger as Spark has them."""

from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from mocketmq_report.ledger import columns

_SPARK_TYPES: Final[dict[pa.DataType, DataType]] = {
    pa.string(): StringType(),
    pa.int64(): LongType(),
    pa.int32(): IntegerType(),
    pa.bool_(): BooleanType(),
}


def in_spark(schema: pa.Schema) -> StructType:
    """The same schema in Spark."""
    return StructType([StructField(field.name, _SPARK_TYPES[field.type]) for field in schema])


DELIVERIES: Final = in_spark(columns.DELIVERIES)
RUNS: Final = in_spark(columns.RUNS)
MOVES: Final = in_spark(columns.MOVES)
