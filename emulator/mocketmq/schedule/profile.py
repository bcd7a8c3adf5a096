"""Timing profiles: when the level queues deliver due messages, and when they save their delay offsets."""

from mocketmq.clock import US_PER_MS, US_PER_S


class Profile:
    """The timing of the level queues, in emulated microseconds.

    This class is the profile ``exact``, which delivers at the due time, and saves offsets in the delivering
    transaction.
    """

    name = "exact"
    save_interval_us = 0  # 0 means that each delivery saves the offset table

    def fires_at(self, due_us: int, delay_us: int, now_us: int) -> int:  # noqa: ARG002 - see Rocketmq4
        """The instant at which the head of a level queue will be delivered, if the time is ``now_us``."""
        return due_us

    def saves_at(self, now_us: int) -> int:
        """The next instant at which the offset table is saved."""
        return now_us


class Rocketmq4(Profile):
    """Has the timing of ScheduleMessageService of RocketMQ 4.9.8 (docs/protocol/remoting.md §5.3 to §5.5).

    Checks for due messages 1 s after the start, then every 100 ms, and delivers them at that time.
    Saves the offset table every 10 s, so a kill repeats all deliveries since the last save.
    """

    name = "rocketmq4"
    save_interval_us = 10 * US_PER_S
    first_look_us = US_PER_S
    look_interval_us = 100 * US_PER_MS

    def __init__(self, started_us: int) -> None:
        self._started_us = started_us

    def fires_at(self, due_us: int, delay_us: int, now_us: int) -> int:
        """The first check at or after the due time.

        Like ``correctDeliverTimestamp``, this ignores a due time that is further away than the level's delay,
        as happens after a change of the table or when the clock is set back. The message is then delivered at
        once.
        """
        if due_us > now_us + delay_us:
            return self._look_from(now_us - self.look_interval_us + 1)
        return self._look_from(due_us)

    def saves_at(self, now_us: int) -> int:
        """The next instant that is a multiple of 10 s after the start."""
        elapsed_us = now_us - self._started_us
        return self._started_us + (elapsed_us // self.save_interval_us + 1) * self.save_interval_us

    def _look_from(self, instant_us: int) -> int:
        since_first_us = instant_us - self._started_us - self.first_look_us
        looks = -(-max(since_first_us, 0) // self.look_interval_us)
        return self._started_us + self.first_look_us + looks * self.look_interval_us


def profile_named(name: str, started_us: int) -> Profile:
    """Make the profile named by a valid setting."""
    return Rocketmq4(started_us) if name == Rocketmq4.name else Profile()
