"""The version of a table, by which tools detect changes (DataVersion.java, 4.9.8)."""

from mocketmq.clock import US_PER_MS


class DataVersion:
    """The number of changes of a table since the start, and the emulated time of the last one in ms."""

    def __init__(self) -> None:
        self.counter = 0
        self.timestamp_ms = 0

    def changed(self, now_us: int) -> None:
        """Count a change of the table."""
        self.counter, self.timestamp_ms = self.counter + 1, now_us // US_PER_MS
