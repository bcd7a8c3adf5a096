"""The ledger for custom queries: as Arrow tables, as a Spark data source, and in SQL with DuckDB.

All three read the ledger as reports do, by ``ledger.sources``, with the columns of ``ledger.columns``. Unlike
a report, they read all of the data or nothing: an unreadable source is an error.
"""
