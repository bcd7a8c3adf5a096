"""How new a table is that others may copy (DataVersion of 4.9.8)."""

from mocketmq.clock import US_PER_MS


class Version:
    """How often something was changed since the start, and when last, in emulated milliseconds."""

    def __init__(self) -> None:
        self.counter = 0
        self.timestamp_ms = 0

    def changed(self, now_us: int) -> None:
        """It was changed."""
        self.counter, self.timestamp_ms = self.counter + 1, now_us // US_PER_MS
