"""The state of slaves: how far they are behind their brokers, and the offsets committed at them.

Brokers and slaves read the same store. A slave that is behind, because of a fault ``replicate-late``, shows
only the messages that were stored up to an instant. When the broker goes down, its slave stays at that
instant until the broker starts again or the slave is promoted.
"""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET

from mocketmq.broker.registry.brokers import ClusterBrokers, RegisteredBroker
from mocketmq.clock import Clock
from mocketmq.faults.rule_set import FaultRules
from mocketmq.store.queue import Queue


class EndOfReplication(msgspec.Struct, frozen=True):
    """The instant at which a broker ended, and the store time of the newest messages of its slave.

    ``replicated_us`` is None if the slave has all messages.
    """

    at_us: int
    replicated_us: int | None

    @property
    def lag_us(self) -> int:
        """How far the slave was behind."""
        return 0 if self.replicated_us is None else self.at_us - self.replicated_us


class Replication:
    """Which of their brokers' messages the slaves have. Instants and durations in emulated microseconds."""

    def __init__(self, clock: Clock, faults: FaultRules, brokers: ClusterBrokers) -> None:
        self._clock = clock
        self._faults = faults
        self._brokers = brokers
        self._ends: dict[str, EndOfReplication] = {}  # of brokers that are down, by name
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
        """Record which messages the slave has when its broker ends, unless that is already recorded."""
        if broker.name not in self._ends:
            self._ends[broker.name] = EndOfReplication(self._clock.now_us(), self.replicated_us(broker))
        return self._ends[broker.name]

    def _forget(self) -> None:
        for each in self._brokers:
            if each.state == "running":
                self._ends.pop(each.name, None)


class SlaveOffsets:
    """The offsets that consumers commit on the slaves of brokers that are down.

    A slave begins with the offsets of its broker. As in RocketMQ, offsets committed on a slave are handed
    back only if slaves act as masters. Otherwise the broker's own offsets apply when it starts again, and a
    consumer that starts then gets messages twice; consumers that stay connected commit their offsets once
    more. A slave that is promoted keeps the offsets. They do not survive a restart of the process.
    """

    def __init__(self, brokers: ClusterBrokers) -> None:
        self._brokers = brokers
        self._offsets: dict[tuple[str, Queue], int] = {}
        brokers.on_changed.append(self._forget)

    def commit(self, group: str, queue: Queue, offset: int) -> None:
        """Commit an offset. Has no effect while the queue's broker runs, whose offsets the slave copies."""
        if self._brokers.is_down(queue):
            self._offsets[group, queue] = offset

    def committed(self, group: str, queue: Queue) -> int | None:
        """The offset that the group has committed on the slave since its broker went down, if any."""
        return self._offsets.get((group, queue))

    def of_broker(self, broker: RegisteredBroker) -> Mapping[tuple[str, Queue], int]:
        """The offsets that groups have committed on the slave of this broker, by group and queue."""
        return {
            key: offset
            for key, offset in self._offsets.items()
            if self._brokers.broker_of_queue(key[1]) is broker
        }

    def _forget(self) -> None:
        left = {key: offset for key, offset in self._offsets.items() if self._brokers.is_down(key[1])}
        self._offsets = left
