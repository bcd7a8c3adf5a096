"""Work on the parts of a ledger, and what carries it to them."""

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol, TypeVar

import pyarrow as pa

from mocketmq_report.ledger.ledger import Columns, Part

Made = TypeVar("Made")

_MOST_THREADS: Final = 4


class Work(Protocol[Made]):
    """What is to be done with parts of a ledger."""

    def columns(self, part: int) -> Columns:
        """What to read of a part."""

    def on(self, part: int, batches: Iterable[pa.RecordBatch]) -> Made:
        """Do the work on a part."""

    def join(self, made: Sequence[Made]) -> Made:
        """Join what was made of several parts."""


class Carrier(Protocol):
    """Carries work to parts, wherever they can be read."""

    def __call__(self, work: Work[Made], parts: Mapping[int, Part]) -> Made:
        """Do the work on all parts.

        The last of them may be divided: then its pieces are numbered from its own number on.
        """
        ...


def carry_here(work: Work[Made], parts: Mapping[int, Part]) -> Made:
    """Do the work in this process, without Spark, in as many threads as there are processors, up to four.

    NumPy and Arrow let other threads go on for most of it.
    """
    threads = min(_MOST_THREADS, len(parts), os.cpu_count() or 1)
    if threads <= 1:
        return work.join([_on(work, *each) for each in parts.items()])
    with ThreadPoolExecutor(threads, "part") as pool:
        try:
            return work.join([*pool.map(partial(_on, work), parts.keys(), parts.values())])
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _on(work: Work[Made], number: int, part: Part) -> Made:
    return work.on(number, part.batches(work.columns(number)))
