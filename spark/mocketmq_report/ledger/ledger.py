"""A ledger: the parts in which its rows are read, its runs, and the moves of their clocks."""

from typing import NamedTuple

import pyarrow as pa

from mocketmq.errors import EmulatorError
from mocketmq_report.ledger.extent import Extent
from mocketmq_report.ledger.part import Part


class Ledger(NamedTuple):
    """A ledger read from one source or many."""

    parts: list[Part]
    runs: pa.Table
    moves: pa.Table
    extent: Extent  # as far as it is known before the rows are read


class BrokenLedgerError(EmulatorError):
    """A file or directory cannot be read as a ledger; the sentence says why, and what can be."""
