"""Holds messages back behind earlier ones, as in systems that deliver delayed messages in queue order."""

from mocketmq.clock import Clock
from mocketmq.delay_limits import WaitingLine
from mocketmq.store.queue import Queue


class WaitingLines:
    """The line of delayed messages of each topic. A cancelled message keeps its place until it is due."""

    def __init__(self, clock: Clock, ahead: int) -> None:
        self._clock = clock
        self._ahead = ahead
        self._lines: dict[str, WaitingLine] = {}

    def join(self, queue: Queue, due_us: int) -> int:
        """Add a message to the line of its topic, and return the due time that it gets there."""
        line = self._lines.setdefault(queue.topic, WaitingLine(self._ahead))
        return line.join(self._clock.now_us(), due_us)

    def load(self, queue: Queue, due_us: int) -> None:
        """Add a message that was already waiting when the broker started."""
        self._lines.setdefault(queue.topic, WaitingLine(self._ahead)).load(due_us)

    def forget(self, topic: str) -> None:
        """Drop the line of a topic whose messages were all cancelled."""
        self._lines.pop(topic, None)

    def forget_all(self) -> None:
        """Forget all lines."""
        self._lines.clear()
