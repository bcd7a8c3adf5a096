"""The load of a lab: the rate, size and delays of messages, and the numbers of pending messages."""

from typing import Final, Literal, NamedTuple

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.errors import InvalidArgumentError
from mocketmq.message.properties import DELAY, TIMER_DELAY_MS
from mocketmq.schedule.level_table import LevelTable
from mocketmq.settings import DelaySync, Settings, TimedSchemeName

SchemeName = Literal["levels"] | TimedSchemeName
LEVELS: Final = "levels"
"""Name of the level queues as a delay scheme."""
TABLE: Final = LevelTable.parse(Settings().levels)
IN_FLIGHT: Final = 64
"""Number of sends in flight while saves are measured."""
_TRIES: Final = 4
_LEAD_US: Final = 3 * US_PER_S
_FILLED_PER_S: Final = 5_000
"""Messages per second that most machines can add, so that a broker is ready before its herd is due."""


class Load(NamedTuple):
    """The load of every subject. Delays are in microseconds; ``size`` is the size of a body in bytes."""

    rate: int = 500
    seconds: int = 8
    delays_us: tuple[int, ...] = (US_PER_S, 5 * US_PER_S)
    size: int = 200
    herd: int = 5_000
    saves_s: float = 2.0
    pending: tuple[int, ...] = (1_000, 10_000, 100_000)
    delay_sync: DelaySync = "always"

    @property
    def messages(self) -> int:
        """The number of messages sent at the rate, which use each delay in rotation."""
        return self.rate * self.seconds

    @property
    def herd_delays_us(self) -> tuple[int, ...]:
        """The delays to try for a herd, in order. Each leaves time to add the herd before it is due."""
        least_us = _LEAD_US + self.herd * US_PER_S // _FILLED_PER_S
        return tuple(each for each in TABLE.delays_us if each >= least_us)[:_TRIES]


def level_of(delay_us: int) -> int:
    """The number of the level with this delay. Raises InvalidArgumentError."""
    if delay_us not in TABLE.delays_us:
        allowed = f"a delay level, as level queues and RocketMQ 4 have no others: {TABLE.text}"
        raise InvalidArgumentError("the delay", f"{delay_us / US_PER_S:g}s", allowed)
    return TABLE.delays_us.index(delay_us) + 1


def delay_property(scheme: SchemeName, delay_us: int) -> dict[str, str]:
    """The property that delays a message by ``delay_us`` in the scheme."""
    if scheme == LEVELS:
        return {DELAY: str(level_of(delay_us))}
    return {TIMER_DELAY_MS: str(delay_us // US_PER_MS)}
