"""A ledger: the parts in which its rows are read, its runs, moves of their clocks, and what faults struck."""

from typing import NamedTuple

import pyarrow as pa

from mocketmq.errors import EmulatorError
from mocketmq_report.ledger.columns import STRUCK
from mocketmq_report.ledger.part import Extent, Part


class Ledger(NamedTuple):
    """A ledger read from one source or many."""

    parts: list[Part]
    runs: pa.Table
    moves: pa.Table
    extent: Extent  # as far as it is known before the rows are read
    struck: pa.Table = STRUCK.empty_table()  # requests of consumers that faults struck


class BrokenLedgerError(EmulatorError):
    """A file or directory cannot be read as a ledger; the sentence says why, and what can be."""
