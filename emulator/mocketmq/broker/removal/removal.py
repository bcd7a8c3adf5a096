"""The parts that empty the broker: on demand, and in the background."""

from dataclasses import dataclass

from mocketmq.broker.removal.reset import Reset
from mocketmq.broker.removal.retention import Retention


@dataclass(frozen=True)
class Removal:
    """``reset`` empties the broker or a topic on request; ``retention`` removes old messages."""

    reset: Reset
    retention: Retention
