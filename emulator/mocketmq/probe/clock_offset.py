"""Estimates the offset of a broker's clock from the local clock, with its error.

As in NTP, the broker stores a message between the local times of send and response, and reports the store
time by its own clock. Each message bounds the offset; all bounds together narrow it.
"""

from collections.abc import Iterable
from typing import NamedTuple

from mocketmq.clock import US_PER_MS


class Sample(NamedTuple):
    """A message's local times of send and response in microseconds, and the broker's store time."""

    sent_us: int
    answered_us: int
    stored_ms: int

    @property
    def least_us(self) -> int:
        """The lower bound of the broker's lead."""
        return self.stored_ms * US_PER_MS - self.answered_us

    @property
    def most_us(self) -> int:
        """The upper bound of the broker's lead. Store times are rounded down to milliseconds."""
        return (self.stored_ms + 1) * US_PER_MS - self.sent_us


class ClockOffset(NamedTuple):
    """The lead ``ahead_us`` of the broker's clock over the local clock, with an error of ``error_us``.

    If the clock ``drifts``, no single offset fits all samples, and the error covers all their offsets.
    """

    ahead_us: int
    error_us: int
    samples: int
    drifts: bool = False

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> "ClockOffset | None":
        """Estimate the offset from the samples; None without samples."""
        found = list(samples)
        if not found:
            return None
        least, most = max(each.least_us for each in found), min(each.most_us for each in found)
        ahead_us = (least + most) // 2
        if least <= most:
            return cls(ahead_us, most - ahead_us, len(found))
        widest = max(
            max(each.most_us for each in found) - ahead_us, ahead_us - min(each.least_us for each in found)
        )
        return cls(ahead_us, widest, len(found), drifts=True)
