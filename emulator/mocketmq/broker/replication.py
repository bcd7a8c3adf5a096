"""How far slaves are behind their brokers, by rules of the fault ``replicate-late``.

Brokers and slaves read the same store. A slave that is behind shows the messages that were stored up to an
instant. When its broker ends, this instant stays until the broker starts again, or the slave is promoted.
"""

import msgspec
from msgspec import UNSET

from mocketmq.broker.registry.brokers import ClusterBrokers, RegisteredBroker
from mocketmq.clock import Clock
from mocketmq.faults.rule_set import FaultRules


class EndOfReplication(msgspec.Struct, frozen=True):
    """When a broker has ended, and the store time of the newest messages that its slave can have.

    ``replicated_us`` is None if the slave has all messages.
    """

    at_us: int
    replicated_us: int | None

    @property
    def lag_us(self) -> int:
        """How far the slave was behind."""
        return 0 if self.replicated_us is None else self.at_us - self.replicated_us


class Replication:
    """What the slaves have of their brokers' messages. Instants and durations in emulated microseconds."""

    def __init__(self, clock: Clock, faults: FaultRules, brokers: ClusterBrokers) -> None:
        self._clock = clock
        self._faults = faults
        self._brokers = brokers
        self._ends: dict[str, EndOfReplication] = {}  # by the name of a broker that is down
        brokers.on_changed.append(self._forget)

    def lag_us(self, broker: RegisteredBroker) -> int:
        """How far the slave of a running broker is behind."""
        now_us = self._clock.now_us()
        lags = (
            fault.draw_us()
            for fault in self._faults.of_replication
            if fault.rule.broker in (UNSET, broker.name) and fault.state(now_us) == "active"
        )
        return max(lags, default=0)

    def replicated_us(self, broker: RegisteredBroker) -> int | None:
        """The store time of the newest messages that the slave can have; None if it has all."""
        if (end := self._ends.get(broker.name)) is not None:
            return end.replicated_us
        lag_us = self.lag_us(broker)
        return self._clock.now_us() - lag_us if lag_us else None

    def end(self, broker: RegisteredBroker) -> EndOfReplication:
        """Note what the slave has when its broker ends, unless the broker has ended before."""
        if broker.name not in self._ends:
            self._ends[broker.name] = EndOfReplication(self._clock.now_us(), self.replicated_us(broker))
        return self._ends[broker.name]

    def _forget(self) -> None:
        for each in self._brokers:
            if each.state == "running":
                self._ends.pop(each.name, None)
