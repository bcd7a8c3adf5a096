"""Promotes the slaves of silent brokers automatically, as RocketMQ's controller does.

The controller notices the end of a broker when its connection closes, or after ten seconds without a
heartbeat (ControllerManager.java, DefaultBrokerHeartbeatManager.java, 5.3.3). Here, a slave is always
promoted after the time in the setting ``failover_after``, by the broker's clock, also during a clock move.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple

from mocketmq.broker.broker_lives import BrokerLives
from mocketmq.broker.registry.brokers import ClusterBrokers, RegisteredBroker
from mocketmq.clock import Clock
from mocketmq.schedule.timer import Due, DueNow
from mocketmq.store.batch import Batch


class _Silence(NamedTuple):
    """A silent broker, since when it is silent, and when its slave is promoted. Emulated microseconds."""

    due_us: int
    broker: RegisteredBroker
    silent_us: int


class Failover:
    """A :class:`~mocketmq.schedule.timer.DueSource` that promotes slaves ``after_us`` of silence."""

    def __init__(self, clock: Clock, brokers: ClusterBrokers, lives: BrokerLives, after_us: int) -> None:
        self._clock = clock
        self._brokers = brokers
        self._lives = lives
        self._after_us = after_us

    def _next(self) -> _Silence | None:
        silences = (
            _Silence(silent_us + self._after_us, each, silent_us)
            for each in self._brokers
            if (silent_us := each.condition.silent_us) is not None and each.has_running_slave
        )
        return min(silences, key=lambda silence: silence.due_us, default=None)

    def next_due_us(self) -> int | None:
        silence = self._next()
        return None if silence is None else silence.due_us

    @asynccontextmanager
    async def firing(self, until_us: int) -> AsyncIterator[DueNow]:  # noqa: ARG002 - one at a time
        reached: list[_Silence] = []
        yield partial(self._due_now, reached)
        for due_us, broker, silent_us in reached:
            self._clock.reach(due_us)  # messages held for the broker are delivered at this time, not earlier
            await self._lives.promote_silent(broker, silent_us)

    def _due_now(self, reached: list[_Silence]) -> Iterator[Due]:
        if (silence := self._next()) is not None:
            yield Due(silence.due_us, partial(_reach, reached, silence))
            yield Due(silence.due_us, None)


def _reach(reached: list[_Silence], silence: _Silence, batch: Batch) -> None:
    batch.on_commit(partial(reached.append, silence))
