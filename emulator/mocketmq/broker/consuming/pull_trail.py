"""Remember the newest pulls and commits of consumers by offset, of which the store keeps no time."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from mocketmq.store.queue import Queue

LENGTH = 1_000
"""Pulls and commits that are remembered."""


class Step(NamedTuple):
    """A group was given messages of a queue by a pull, or committed past them (``is_commit``)."""

    at_us: int
    group: str
    queue: Queue
    offsets: Sequence[int]
    is_commit: bool


class PullTrail:
    """The newest steps, oldest first."""

    def __init__(self) -> None:
        self.steps: deque[Step] = deque(maxlen=LENGTH)

    def pulled(self, at_us: int, group: str, queue: Queue, offsets: Sequence[int]) -> None:
        """A pull gave these messages to the group."""
        self.steps.append(Step(at_us, group, queue, offsets, is_commit=False))

    def committed(self, at_us: int, group: str, queue: Queue, offsets: range) -> None:
        """The group's committed offset passed these messages."""
        self.steps.append(Step(at_us, group, queue, offsets, is_commit=True))
