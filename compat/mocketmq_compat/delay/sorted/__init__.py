"""The scheme ``sorted``: one sorted key space in RocksDB, read from the front."""
