"""Protobuf's timestamps and durations as microseconds."""

from typing import Any

from mocketmq.clock import US_PER_S


def us_of(time: Any) -> int:
    """The microseconds of a Timestamp or Duration; nanoseconds are cut off."""
    return int(time.seconds) * US_PER_S + int(time.nanos) // 1_000


def set_us(time: Any, us: int) -> None:
    """Set a Timestamp or Duration that is not negative."""
    time.seconds, time.nanos = us // US_PER_S, us % US_PER_S * 1_000
    time.SetInParent()
