"""Views that give an older store's tables the current columns, so that one statement reads all versions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from mocketmq.message.names import TIMER_TOPIC

OLDER_TABLES: Final = {"deliveries", "held_deliveries", "messages", "timed_messages"}
"""Tables that changed after the oldest revision that can be read."""

_HELD_DELIVERIES: Final = "0007"
_LOG_OFFSET: Final = "0011"
_SCHEME_NAMES: Final = "0012"
_KIND: Final = "0013"
"""First revision with each of these changes."""

_NO_HELD_DELIVERIES: Final = """
CREATE TEMP VIEW held_deliveries AS SELECT 0 AS held, 0 AS parked_offset, 0 AS record_offset, 0 AS is_repeat,
 0 AS queue_key, '' AS scheme, 0 AS level, 0 AS stored_us, 0 AS due_us, 0 AS size, '' AS fault WHERE 0"""
_SCHEME: Final = "iif(scheme = 'second-directories', 'directories', scheme) AS scheme"
_KIND_OF: Final = f"""
CASE WHEN queue_key NOT IN (SELECT key FROM main.queues WHERE topic = '{TIMER_TOPIC}') THEN 'sent'
 WHEN {{0}} IN (SELECT {{0}} FROM main.timed_messages WHERE outcome = 'cancelled') THEN 'cancelled'
 ELSE 'held' END AS kind"""
"""SQL for the kind of a record of a timed scheme. Any other record counts as ``sent``."""


def views(revision: str, columns: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield the statements that make the views. ``columns`` has the columns of each existing older table."""
    if revision < _HELD_DELIVERIES:
        yield _NO_HELD_DELIVERIES
    for table, names in columns.items():
        shown = [_SCHEME if name == "scheme" and revision < _SCHEME_NAMES else name for name in names]
        if "commit_offset" in names and revision < _LOG_OFFSET:
            shown.append("commit_offset AS log_offset")
        if table == "messages" and revision < _KIND:
            shown.append(_KIND_OF.format("commit_offset" if revision < _LOG_OFFSET else "log_offset"))
        if shown != list(names):
            yield f"CREATE TEMP VIEW {table} AS SELECT {', '.join(shown)} FROM main.{table}"
