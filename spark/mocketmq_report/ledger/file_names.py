"""The names of ledger files that mocketmq did not write."""

import re
from typing import Final

FORMATS: Final = "CSV (.csv), JSON lines (.jsonl, .ndjson) and Parquet (.parquet), the texts also compressed"

_KINDS: Final = {"csv": "csv", "jsonl": "json", "ndjson": "json", "parquet": "parquet"}
_NAME: Final = re.compile(r"(.+?)\.(csv|jsonl|ndjson|parquet)(?:\.(?:gz|bz2|zst|lz4|snappy|deflate))?")


def parse_name(name: str) -> tuple[str, str] | None:
    """The name without its ending, and the kind: csv, json or parquet; None if it is no such name."""
    found = _NAME.fullmatch(name)
    return (found[1], _KINDS[found[2]]) if found else None
