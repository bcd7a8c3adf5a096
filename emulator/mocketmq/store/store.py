"""The database, its writer and the clock, which most parts of the broker share."""

from dataclasses import dataclass

from mocketmq.clock import Clock
from mocketmq.store.database import Database
from mocketmq.store.writer import Writer


@dataclass(frozen=True)
class Store:
    """The store and the clock. Read from the database directly, but write only through the writer."""

    database: Database
    writer: Writer
    clock: Clock
    run: int  # the number of this start of the broker
