"""Crashes brokers of a cluster, shuts them down and starts them again, for tests of fail-over.

A broker that is down has closed ports. Its messages stay in the store. Delayed messages that become due
meanwhile are held (``schedule/held_deliveries.py``) and delivered when the broker starts again. The ledger
names its downtime as the reason why they are late. Routes still name a broker that has crashed, for 120 s by
the broker's clock (``broker/registry/brokers.py``); one that was shut down has left the name server.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from mocketmq.broker.consuming.queue_locks import QueueLocks, TopicQueue
from mocketmq.broker.outage import Outage
from mocketmq.broker.registry.brokers import BrokerState, ClusterBrokers, RegisteredBroker
from mocketmq.errors import BrokerStateError
from mocketmq.run_to_completion import run_to_completion
from mocketmq.schedule.held_deliveries import HeldDeliveries
from mocketmq.store.store import Store
from mocketmq.store.writer import Batch

log: Final = logging.getLogger(__name__)


class BrokerLives:
    """Changes the states of brokers, one at a time."""

    def __init__(
        self,
        store: Store,
        brokers: ClusterBrokers,
        held: HeldDeliveries,
        locks: QueueLocks,
        outage: Outage,
        end_polls: Callable[[], None],
    ) -> None:
        self._writer = store.writer
        self._brokers = brokers
        self._held = held
        self._locks = locks
        self._outage = outage
        self._end_polls = end_polls
        self._lock = asyncio.Lock()

    async def load(self) -> None:
        """Release messages held for brokers that were down when the process ended. All brokers run now."""
        held = await self._held.counts()
        await self._release([each for each in self._brokers if each.downtime in held])

    async def crash(self, name: str) -> RegisteredBroker:
        """End a broker's connections and close its ports. Its routes stay for a while.

        Raises BrokerNotFoundError, and BrokerStateError unless the broker runs.
        """
        return await run_to_completion(self._end(name, "crashed"))

    async def shut_down(self, name: str) -> RegisteredBroker:
        """Take a broker out of all routes, end its connections and close its ports. Raises like ``crash``."""
        return await run_to_completion(self._end(name, "shut-down"))

    async def _end(self, name: str, state: BrokerState) -> RegisteredBroker:
        async with self._lock:
            broker = self._brokers.broker_named(name)
            if broker.state != "running":
                raise BrokerStateError(f"{name} is {broker.state}; allowed: running. Start it first")
            async with self._changed_to(state, [broker]):
                await self._outage.update()

            def is_lost(queue: TopicQueue) -> bool:
                return broker.share.has_queue(*queue)

            self._locks.forget(is_lost)
            self._end_polls()  # only now, so that clients of the broker get no answer; those over gRPC do
            return broker

    async def start(self, name: str) -> RegisteredBroker:
        """Start a broker again on its ports, and deliver the messages that became due while it was down.

        Raises BrokerNotFoundError, and BrokerStateError if the broker runs.
        """
        return await run_to_completion(self._start_one(name))

    async def _start_one(self, name: str) -> RegisteredBroker:
        async with self._lock:
            broker = self._brokers.broker_named(name)
            if broker.state == "running":
                raise BrokerStateError(
                    f"{name} is running; allowed: crashed or shut-down. Crash it or shut it down first"
                )
            await self._start([broker])
            return broker

    async def start_all(self) -> None:
        """Start every broker that is down."""
        await run_to_completion(self._start_all())

    async def _start_all(self) -> None:
        async with self._lock:
            await self._start([each for each in self._brokers if each.state != "running"])

    async def start_restored(self) -> None:
        """Start every broker that is down, and release what brokers held in a restored snapshot."""
        await self.start_all()
        await self.load()

    async def _start(self, brokers: Sequence[RegisteredBroker]) -> None:
        if brokers:
            async with self._changed_to("running", brokers):
                await self._release(brokers)
                await self._outage.update()

    @asynccontextmanager
    async def _changed_to(
        self, state: BrokerState, brokers: Sequence[RegisteredBroker]
    ) -> AsyncIterator[None]:
        """Change the state of brokers. If the rest of the change fails, restore states and ports."""
        former = [(each, each.state, each.crashed_us) for each in brokers]
        for each in brokers:
            self._brokers.set_state(each, state)
        try:
            yield
        except BaseException:
            for each, before, crashed_us in former:
                self._brokers.set_state(each, before, crashed_us)
            await self._outage.update()
            raise
        for each in brokers:
            log.info("%s: %s", each.name, state)

    async def _release(self, brokers: Sequence[RegisteredBroker]) -> None:
        def work(batch: Batch) -> None:
            for each in brokers:
                self._held.release(batch, each.downtime)

        if brokers:
            await self._writer.commit(work)
