"""How far slaves are behind their brokers, by rules of the fault ``replicate-late``.

Brokers and slaves read the same store. A slave that is behind shows the messages that were stored up to an
instant. When its broker ends, this instant stays until the broker starts again.
"""

from msgspec import UNSET

from mocketmq.broker.registry.brokers import ClusterBrokers, RegisteredBroker
from mocketmq.clock import Clock
from mocketmq.faults.rule_set import FaultRules


class Replication:
    """What the slaves have of their brokers' messages. Instants and durations in emulated microseconds."""

    def __init__(self, clock: Clock, faults: FaultRules, brokers: ClusterBrokers) -> None:
        self._clock = clock
        self._faults = faults
        self._brokers = brokers
        self._at_end: dict[str, int | None] = {}  # by the name of a broker that is down
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
        if broker.name in self._at_end:
            return self._at_end[broker.name]
        lag_us = self.lag_us(broker)
        return self._clock.now_us() - lag_us if lag_us else None

    def end(self, broker: RegisteredBroker) -> None:
        """Note what the slave has when its broker ends."""
        self._at_end[broker.name] = self.replicated_us(broker)

    def _forget(self) -> None:
        for each in self._brokers:
            if each.state == "running":
                self._at_end.pop(each.name, None)
