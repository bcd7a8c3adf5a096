"""The parts that empty the broker: on demand, and in the background."""

from dataclasses import dataclass

from mocketmq.broker.upkeep.reset import Reset
from mocketmq.broker.upkeep.retention import Retention


@dataclass(frozen=True)
class Upkeep:
    """A reset forgets what it is told to, retention what is old."""

    reset: Reset
    retention: Retention
