"""A connection that runs a whole transaction in one call, so that aiosqlite switches threads once."""

import sqlite3
from typing import Any, Final

from mocketmq.store.transaction_runner import TransactionRunner

TRANSACTION: Final = "-- transaction"


class TransactingConnection(sqlite3.Connection):
    """A connection with the ``runner`` of its transactions."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.runner = TransactionRunner()

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        """Like sqlite3's. For ``TRANSACTION``, run ``parameters`` as statements, and wait for locks."""
        if sql != TRANSACTION:
            return super().executemany(sql, parameters)
        self.runner.run_in_thread(self, parameters)
        return self.cursor()
