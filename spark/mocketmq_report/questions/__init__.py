"""The ledger for questions of one's own: as Arrow tables, as a data source of Spark, and in SQL by DuckDB.

All three read the ledger as reports do, by ``ledger.sources``, with the columns of ``ledger.columns``. Unlike
a report, they read all of the data or nothing: a source that cannot be read is an error.
"""
