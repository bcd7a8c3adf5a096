"""Runs the kernel on the parts of a ledger, on Spark's executors."""

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from mocketmq.errors import EmulatorError
from mocketmq_report.ledger.ledger import LedgerPart
from mocketmq_report.ledger.work import Work

if TYPE_CHECKING:
    from pyspark import SparkContext

Made = TypeVar("Made")

_TASKS: Final = 4  # maximum number of tasks for each core
_MISSING: Final = re.compile(r"No module named '([\w.]+)'")
_SAID: Final = re.compile(r"^mocketmq[\w.]*\.\w+Error: (.+)$", re.MULTILINE)
_KILLED: Final = re.compile(r"Python worker exited unexpectedly|ExecutorLostFailure|Python worker failed to")


class ExecutorError(EmulatorError):
    """Spark's executors cannot do the work; the message says why."""


class SparkCarrier:
    """Distributes work to Spark's tasks, which read their parts themselves.

    Rows that only Spark can read pass through Spark's JVM.
    """

    def __init__(self, context: Callable[[], "SparkContext"]) -> None:
        self._context = context

    def __call__(self, work: Work[Made], parts: Mapping[int, LedgerPart]) -> Made:
        """Run the work on all parts.

        Raises ExecutorError if executors lack a module, cannot read a part, or are killed.
        """
        from py4j.protocol import Py4JJavaError  # noqa: PLC0415
        from pyspark.errors import PySparkException  # noqa: PLC0415 - once Spark has started

        from mocketmq_report.ledger.spark_rows import SparkRows  # noqa: PLC0415

        context = self._context()
        own = [(number, part) for number, part in parts.items() if not isinstance(part, SparkRows)]
        made: list[Made] = []
        try:
            if own:
                tasks = min(len(own), _TASKS * context.defaultParallelism)
                found = context.parallelize(own, tasks).mapPartitions(partial(_on_parts, work)).collect()
                made += map(_unpacked, found)
            for number, part in parts.items():
                if isinstance(part, SparkRows):
                    found = part.mapped(work.columns(number), partial(_on_rows, work, number))
                    made += map(_unpacked, found)
        except (PySparkException, Py4JJavaError) as error:
            if sentence := _sentence(str(error)):
                raise ExecutorError(sentence) from error
            raise
        return work.join(made)


def _sentence(failure: str) -> str | None:
    """Return the reason of a failed task as a sentence; None if the reason is unknown."""
    if missing := _MISSING.search(failure):
        return (
            f"Spark's executors lack the Python module {missing[1]}: each needs Python 3.11 or newer,"
            " NumPy, pyarrow, msgspec and mocketmq (docs/lateness.md, On a cluster)"
        )
    if said := _SAID.search(failure):
        return said[1]
    if _KILLED.search(failure):
        return (
            "the processes that read the data for Spark were killed, and none could replace them, most often"
            " for lack of memory: use fewer cores (--master 'local[1]') or a machine with more memory"
        )
    return None


def _on_parts(work: Work[Any], parts: Iterable[tuple[int, LedgerPart]]) -> Iterator[bytes]:
    made = [work.on(number, part.batches(work.columns(number))) for number, part in parts]
    yield _packed(work.join(made))


def _on_rows(work: Work[Any], first: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext  # noqa: PLC0415 - in a task

    context = TaskContext.get()
    number = first + (context.partitionId() if context else 0)
    yield pa.record_batch({"made": [_packed(work.on(number, batches))]})


def _packed(made: object) -> bytes:
    """Compress a result to a tenth, because it passes through the memory of Spark's JVM."""
    packed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(packed, "zstd") as out:
        pickle.dump(made, out)
    found: bytes = packed.getvalue().to_pybytes()
    return found


def _unpacked(packed: bytes) -> Any:
    with pa.CompressedInputStream(pa.py_buffer(packed), "zstd") as file:
        return pickle.load(file)  # noqa: S301 - our own tasks made it
