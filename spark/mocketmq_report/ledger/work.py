"""Jobs over the parts of a ledger, and the carrier that runs them."""

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol, TypeVar

import pyarrow as pa

from mocketmq_report.ledger.ledger import Columns, LedgerPart

Made = TypeVar("Made")

_MOST_THREADS: Final = 4


class Work(Protocol[Made]):
    """A job over the parts of a ledger."""

    def columns(self, part: int) -> Columns:
        """Return the columns to read of a part."""

    def on(self, part: int, batches: Iterable[pa.RecordBatch]) -> Made:
        """Run the job on one part."""

    def join(self, made: Sequence[Made]) -> Made:
        """Merge the results of several parts."""


class Carrier(Protocol):
    """Runs a job on parts, each where the part is readable."""

    def __call__(self, work: Work[Made], parts: Mapping[int, LedgerPart]) -> Made:
        """Run the job on all parts.

        The last part may be divided into pieces, which are numbered from the part's own number on.
        """
        ...


def carry_here(work: Work[Made], parts: Mapping[int, LedgerPart]) -> Made:
    """Run the job in this process, with a thread for each processor, up to four.

    NumPy and Arrow release the interpreter's lock for most of the work.
    """
    threads = min(_MOST_THREADS, len(parts), os.cpu_count() or 1)
    if threads <= 1:
        return work.join([_on(work, *each) for each in parts.items()])
    with ThreadPoolExecutor(threads, "part") as pool:
        try:
            return work.join([*pool.map(partial(_on, work), parts.keys(), parts.values())])
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _on(work: Work[Made], number: int, part: LedgerPart) -> Made:
    return work.on(number, part.batches(work.columns(number)))
