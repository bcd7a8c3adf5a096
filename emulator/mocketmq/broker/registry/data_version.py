"""The version of a table, by which tools see whether it has changed (DataVersion.java, 4.9.8)."""

from mocketmq.clock import US_PER_MS


class DataVersion:
    """How often the table was changed since the start, and when last, in emulated milliseconds."""

    def __init__(self) -> None:
        self.counter = 0
        self.timestamp_ms = 0

    def changed(self, now_us: int) -> None:
        """Count a change of the table."""
        self.counter, self.timestamp_ms = self.counter + 1, now_us // US_PER_MS
