"""The delay scheme ``sorted``: one sorted key space on RocksDB, read from the front."""
