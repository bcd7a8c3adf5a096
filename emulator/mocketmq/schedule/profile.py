"""Timing profiles: when the level queues deliver due messages, and when they save their delay offsets."""

from typing import Protocol

from mocketmq.clock import US_PER_MS, US_PER_S


class Profile(Protocol):
    """How one kind of broker times its level queues. All instants are emulated microseconds."""

    name: str
    save_interval_us: int  # 0: the offset table is saved with each delivery

    def fires_at(self, due_us: int, delay_us: int, now_us: int) -> int:
        """The instant at which the head of a level queue is delivered, seen from ``now_us``."""

    def saves_at(self, now_us: int) -> int:
        """The next instant at which the offset table is saved."""


class Exact:
    """Driven by the next deadline; offsets move in the delivering transaction."""

    name = "exact"
    save_interval_us = 0

    def fires_at(self, due_us: int, delay_us: int, now_us: int) -> int:  # noqa: ARG002 - see Profile
        """At the due time itself."""
        return due_us

    def saves_at(self, now_us: int) -> int:
        """With each delivery, so at once."""
        return now_us


class Rocketmq4:
    """ScheduleMessageService of RocketMQ 4.9.8 (docs/protocol/remoting.md §5.3 to §5.5).

    The first look is 1 s after the start, then one each 100 ms; what is due by then is delivered then.
    The offset table is saved each 10 s, so a kill repeats what was delivered since.
    """

    name = "rocketmq4"
    save_interval_us = 10 * US_PER_S
    first_look_us = US_PER_S
    look_interval_us = 100 * US_PER_MS

    def __init__(self, started_us: int) -> None:
        self._started_us = started_us

    def fires_at(self, due_us: int, delay_us: int, now_us: int) -> int:
        """The first look at or after the due time.

        ``correctDeliverTimestamp``: a due time further away than the level's whole delay (the table was
        changed, or the clock set back) is not believed; the message goes out at once.
        """
        if due_us > now_us + delay_us:
            return self._look_from(now_us - self.look_interval_us + 1)
        return self._look_from(due_us)

    def saves_at(self, now_us: int) -> int:
        """The next multiple of 10 s after the start."""
        elapsed_us = now_us - self._started_us
        return self._started_us + (elapsed_us // self.save_interval_us + 1) * self.save_interval_us

    def _look_from(self, instant_us: int) -> int:
        since_first_us = instant_us - self._started_us - self.first_look_us
        looks = -(-max(since_first_us, 0) // self.look_interval_us)
        return self._started_us + self.first_look_us + looks * self.look_interval_us


def profile_named(name: str, started_us: int) -> Profile:
    """The profile of a valid setting."""
    return Rocketmq4(started_us) if name == Rocketmq4.name else Exact()
