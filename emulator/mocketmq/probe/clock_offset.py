"""The offset of a broker's clock from ours, with its error.

As in NTP, the broker stores a message between our send and its answer, and reports the store time by its own
clock. Each message bounds the offset, and all bounds together narrow it.
"""

from collections.abc import Iterable
from typing import NamedTuple

from mocketmq.clock import US_PER_MS


class Sample(NamedTuple):
    """A message: sent and answered by our clock, in microseconds, and stored by the broker's."""

    sent_us: int
    answered_us: int
    stored_ms: int

    @property
    def least_us(self) -> int:
        """The broker's clock is at least so far ahead."""
        return self.stored_ms * US_PER_MS - self.answered_us

    @property
    def most_us(self) -> int:
        """The broker's clock is at most so far ahead; it names whole milliseconds that have begun."""
        return (self.stored_ms + 1) * US_PER_MS - self.sent_us


class ClockOffset(NamedTuple):
    """The broker's clock is ``ahead_us`` ahead of ours, or up to ``error_us`` more or less.

    If it ``drifts``, no one difference fits all samples, and the error spans what fits each of them.
    """

    ahead_us: int
    error_us: int
    samples: int
    drifts: bool = False

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> "ClockOffset | None":
        """The difference that the samples allow; None without any."""
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
