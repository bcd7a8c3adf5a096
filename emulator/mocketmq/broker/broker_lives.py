"""Changes the conditions of brokers, for tests of fail-over: crashes them, cuts them off, starts them again.

A broker that is down has closed ports. Its messages stay in the store; a crash may lose the newest of them
(``broker/removal/crash_loss.py``). Delayed messages that become due meanwhile are held
(``schedule/held_deliveries.py``) and delivered when the broker starts again. The ledger names its downtime as
the reason why they are late. Routes still name a broker that has crashed, for 120 s by the broker's clock
(``broker/registry/brokers.py``); one that was shut down has left the name server.

A broker that is cut off runs. Cut off from clients, it keeps their connections and answers nothing, as in a
network that loses all packets. Cut off from name servers, it serves its clients until routes forget it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from mocketmq.broker.consuming.queue_locks import QueueLocks, TopicQueue
from mocketmq.broker.outage import Outage
from mocketmq.broker.registry.brokers import (
    HEALTHY,
    BrokerCondition,
    BrokerState,
    ClusterBrokers,
    CutOff,
    RegisteredBroker,
)
from mocketmq.broker.replication import Replication
from mocketmq.duration import format_duration
from mocketmq.errors import BrokerStateError
from mocketmq.event_loop import run_to_completion
from mocketmq.message.broker_share import BrokerShare
from mocketmq.schedule.held_deliveries import HeldDeliveries
from mocketmq.setting_rules import CrashLoss
from mocketmq.store.store import Store
from mocketmq.store.writer import Batch

log: Final = logging.getLogger(__name__)


class Crash(NamedTuple):
    """A broker that has crashed, and the number of messages that it has lost."""

    broker: RegisteredBroker
    lost: int


class BrokerLives:
    """Changes the conditions of brokers, one at a time."""

    def __init__(
        self,
        store: Store,
        brokers: ClusterBrokers,
        held: HeldDeliveries,
        locks: QueueLocks,
        outage: Outage,
        end_polls: Callable[[], None],
        wipe: Callable[[BrokerShare], Awaitable[None]],
        lose: Callable[[BrokerShare, int, int], Awaitable[int]],
        loses: CrashLoss,
        replication: Replication,
    ) -> None:
        self._clock = store.clock
        self._writer = store.writer
        self._brokers = brokers
        self._held = held
        self._locks = locks
        self._outage = outage
        self._end_polls = end_polls
        self._wipe = wipe
        self._lose = lose
        self._loses = loses
        self._replication = replication
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Release messages held for brokers that were down when the process ended. All brokers run now."""
        held = await self._held.counts()
        await self._release([each for each in self._brokers if each.downtime in held])

    async def crash(self, name: str, loses: CrashLoss | None = None) -> Crash:
        """End a broker's connections and close its ports. Its routes stay for a while.

        It loses what it has stored in the last ``loses`` microseconds, or what its slave does not have yet.
        By default, the setting says it. Raises BrokerNotFoundError, BrokerStateError unless the broker runs,
        and a StoreError.
        """
        return await run_to_completion(self._end(name, "crashed", self._loses if loses is None else loses))

    async def shut_down(self, name: str) -> RegisteredBroker:
        """Take a broker out of all routes, end its connections and close its ports. Raises like ``crash``."""
        return (await run_to_completion(self._end(name, "shut-down", 0))).broker

    async def _end(self, name: str, state: BrokerState, loses: CrashLoss) -> Crash:
        lost = 0
        async with self._lock:
            broker = self._running(name)
            silent_us = self._silent_us(broker) if state == "crashed" else None
            end_us = self._clock.now_us()
            loses_us = self._replication.lag_us(broker) if loses == "unreplicated" else loses
            self._replication.end(broker)
            async with self._changed_to(BrokerCondition(state, silent_us), [broker]):
                await self._outage.update()
                if loses_us:
                    lost = await self._lose(broker.share, end_us, loses_us)
                    log.info("%s: lost %d messages of the last %s", name, lost, format_duration(loses_us))

            def is_lost(queue: TopicQueue) -> bool:
                return broker.share.has_queue(*queue)

            self._locks.forget(is_lost)
            self._end_polls()  # only now, so that clients of the broker get no answer; those over gRPC do
            return Crash(broker, lost)

    def _running(self, name: str) -> RegisteredBroker:
        broker = self._brokers.broker_named(name)
        if broker.state != "running":
            raise BrokerStateError(f"{name} is {broker.state}; allowed: running. Start it first")
        return broker

    def _silent_us(self, broker: RegisteredBroker) -> int:
        silent_us = broker.condition.silent_us
        return self._clock.now_us() if silent_us is None else silent_us

    async def cut_off(self, name: str, side: CutOff) -> RegisteredBroker:
        """Cut a broker off from its clients or from the name servers. Raises like ``crash``."""
        async with self._lock:
            broker = self._running(name)
            condition = broker.condition
            silent_us = self._silent_us(broker) if side == "name-servers" else condition.silent_us
            sides = condition.cut_off_from | {side}
            self._set(broker, f"cut off from {side}", cut_off_from=sides, silent_us=silent_us)
            if side == "clients":
                self._end_polls()  # those over gRPC fail
            return broker

    async def reconnect(self, name: str) -> RegisteredBroker:
        """End what cuts a broker off. It registers again at once. Raises like ``crash``."""
        async with self._lock:
            broker = self._running(name)
            self._set(broker, "reconnected", cut_off_from=frozenset(), silent_us=None)
            return broker

    async def set_read_only(self, name: str, *, is_read_only: bool) -> RegisteredBroker:
        """Let a broker refuse sends, or take them again. Raises like ``crash``."""
        async with self._lock:
            broker = self._running(name)
            self._set(broker, "read-only" if is_read_only else "writable", is_read_only=is_read_only)
            return broker

    def _set(self, broker: RegisteredBroker, what: str, **changed: Any) -> None:
        self._brokers.set_condition(broker, broker.condition._replace(**changed))
        log.info("%s: %s", broker.name, what)

    async def start(self, name: str) -> RegisteredBroker:
        """Start a broker again on its ports, and deliver the messages that became due while it was down.

        Raises BrokerNotFoundError, and BrokerStateError if the broker runs.
        """
        return await run_to_completion(self._start_one(name))

    async def _start_one(self, name: str) -> RegisteredBroker:
        async with self._lock:
            broker = self._ended(name)
            await self._start([broker])
            return broker

    def _ended(self, name: str) -> RegisteredBroker:
        broker = self._brokers.broker_named(name)
        if broker.state == "running":
            raise BrokerStateError(
                f"{name} is running; allowed: crashed or shut-down. Crash it or shut it down first"
            )
        return broker

    async def wipe(self, name: str) -> RegisteredBroker:
        """Delete all that a broker has, as if its disk were lost. Raises like ``start``."""
        return await run_to_completion(self._wipe_one(name))

    async def _wipe_one(self, name: str) -> RegisteredBroker:
        async with self._lock:
            broker = self._ended(name)
            await self._wipe(broker.share)
            log.info("%s: wiped", name)
            return broker

    async def start_all(self) -> None:
        """Start every broker that is down, and end all that troubles the others."""
        await run_to_completion(self._start_all())

    async def _start_all(self) -> None:
        async with self._lock:
            await self._start([each for each in self._brokers if each.condition != HEALTHY])

    async def start_restored(self) -> None:
        """Start every broker that is down, and release what brokers held in a restored snapshot."""
        await self.start_all()
        await self.load()

    async def _start(self, brokers: Sequence[RegisteredBroker]) -> None:
        if brokers:
            async with self._changed_to(HEALTHY, brokers):
                await self._release(brokers)
                await self._outage.update()

    @asynccontextmanager
    async def _changed_to(
        self, condition: BrokerCondition, brokers: Sequence[RegisteredBroker]
    ) -> AsyncIterator[None]:
        """Change the condition of brokers. If the rest of the change fails, restore conditions and ports."""
        former = [(each, each.condition) for each in brokers]
        for each in brokers:
            self._brokers.set_condition(each, condition)
        try:
            yield
        except BaseException:
            for each, before in former:
                self._brokers.set_condition(each, before)
            await self._outage.update()
            raise
        for each in brokers:
            log.info("%s: %s", each.name, condition.state)

    async def _release(self, brokers: Sequence[RegisteredBroker]) -> None:
        def work(batch: Batch) -> None:
            for each in brokers:
                self._held.release(batch, each.downtime)

        if brokers:
            await self._writer.commit(work)
