"""Work on the parts of a ledger, and what carries it to them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import pyarrow as pa

from mocketmq_report.ledger.part import Columns, Part

Made = TypeVar("Made")


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
    """Do the work in this process, without Spark."""
    return work.join([work.on(number, part.batches(work.columns(number))) for number, part in parts.items()])
