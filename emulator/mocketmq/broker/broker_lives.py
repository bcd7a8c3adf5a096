"""Changes the conditions of brokers, for tests of fail-over: crashes them, cuts them off, starts them again.

A broker that is down has closed ports. Its messages stay in the store; a crash may lose the newest of them
(``broker/removal/crash_loss.py``). Delayed messages that become due meanwhile are held
(``schedule/held_deliveries.py``) and delivered when the broker starts again. The ledger names the downtime as
the reason for their lateness. Routes still name a crashed broker for 120 s by the broker's clock
(``broker/registry/brokers.py``). A broker that was shut down has unregistered, so routes do not name it.

A promotion makes the slave of a broker its master: the ports of both change roles, and the messages that the
slave does not have are lost. A broker that was down when its slave was promoted comes back as the slave.
There is never more than one master: a master that is cut off ends when its slave is promoted.

A broker that is cut off still runs. If it is cut off from clients, it keeps their connections but answers
nothing, as in a network that loses all packets. If it is cut off from name servers, it serves its clients
until it expires from the routes.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec

from mocketmq.broker.consuming.committed_offsets import CommittedOffsets
from mocketmq.broker.consuming.queue_locks import QueueLocks, TopicQueue
from mocketmq.broker.outage import Outage
from mocketmq.broker.registry.brokers import (
    DOWN,
    HEALTHY,
    BrokerChange,
    BrokerCondition,
    BrokerState,
    ClusterBrokers,
    CutOff,
    RegisteredBroker,
)
from mocketmq.broker.replication import Replication, SlaveOffsets
from mocketmq.clock import US_PER_S
from mocketmq.duration import format_duration
from mocketmq.errors import BrokerStateError
from mocketmq.event_loop import completed
from mocketmq.message.broker_share import BrokerShare
from mocketmq.schedule.held_deliveries import HeldDeliveries
from mocketmq.schedule.timer import Timer
from mocketmq.setting_rules import CrashLoss
from mocketmq.store.batch import Batch
from mocketmq.store.queue import Queue
from mocketmq.store.store import Store

log: Final = logging.getLogger(__name__)


COPY_OFFSETS_US: Final = 10 * US_PER_S
"""Interval at which offsets are copied to a slave, which lacks commits since the last copy.

RocketMQ's interval is up to ten seconds (SlaveSynchronize.java, BrokerController.java, 5.3.3).
"""


MAX_CHANGES: Final = 1_000
"""Number of the newest changes that are remembered."""


class BrokerLoss(msgspec.Struct, frozen=True):
    """A broker that has crashed or whose slave was promoted, and the number of messages that it has lost."""

    broker: RegisteredBroker
    lost: int


@dataclass(eq=False, repr=False)
class BrokerLives:
    """Changes the conditions of brokers, one at a time.

    Changes that delete messages also hold the timer's lock, which is always taken first.
    """

    _store: Store
    _timer: Timer
    _brokers: ClusterBrokers
    _held: HeldDeliveries
    _locks: QueueLocks
    _outage: Outage
    _end_polls: Callable[[], None]
    _wipe: Callable[[BrokerShare], Awaitable[None]]
    _lose: Callable[[BrokerShare, int, int, int], Awaitable[int]]
    _loses: CrashLoss
    _replication: Replication
    _slave_offsets: SlaveOffsets
    _committed_offsets: CommittedOffsets
    _lock: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)
    changes: deque[BrokerChange] = field(init=False, default_factory=partial(deque, maxlen=MAX_CHANGES))

    async def load(self) -> None:
        """Release messages held for brokers that were down when the process ended. All brokers run now.

        The brokers' names may have changed since.
        """
        await self._release([name for name in await self._held.counts() if name.endswith(DOWN)])

    @completed
    async def crash(self, name: str, loses: CrashLoss | None = None) -> BrokerLoss:
        """End a broker's connections and close its ports. Its routes stay for a while.

        The broker loses what it stored in the last ``loses`` microseconds, or what its slave does not have
        yet; by default, as in the settings. Raises BrokerNotFoundError, BrokerStateError unless the broker
        runs, and a StoreError.
        """
        loses = self._loses if loses is None else loses
        if not loses:  # losing nothing needs no intervention, so it works during a clock move, too
            return await self._end(name, "crashed", 0)
        async with self._timer.intervention():
            return await self._end(name, "crashed", loses)

    @completed
    async def shut_down(self, name: str) -> RegisteredBroker:
        """Take a broker out of all routes, end its connections and close its ports.

        Raises the errors of ``crash``.
        """
        return (await self._end(name, "shut-down", 0)).broker

    async def _end(self, name: str, state: BrokerState, loses: CrashLoss) -> BrokerLoss:
        lost = 0
        async with self._lock:
            broker = self._running(name)
            end = self._replication.end(broker)
            loses_us = end.lag_us if loses == "unreplicated" else loses
            async with self._changed_to({broker: self._ended_condition(broker, state)}):
                await self._outage.update()
                if loses_us:
                    lost = await self._lose(broker.share, end.at_us, loses_us, 0)
            what = "crashed" if state == "crashed" else "shut down"
            if loses_us:
                what += f", lost {_messages(lost)} of the last {format_duration(loses_us)}"
            self._note(broker, what)
            self._forget_clients(broker)
            return BrokerLoss(broker, lost)

    def _ended_condition(self, broker: RegisteredBroker, state: BrokerState) -> BrokerCondition:
        return BrokerCondition(
            state,
            self._silent_us(broker),
            is_promoted=broker.condition.is_promoted,
            is_slave_down=broker.condition.is_slave_down,
        )

    def _forget_clients(self, broker: RegisteredBroker) -> None:
        """Forget the queue locks of a broker that has ended, and end the long polls of its clients.

        Called after the broker's connections have ended, so only gRPC clients get a response to their polls.
        """
        self._forget_locks(broker)
        self._end_polls()

    def _forget_locks(self, broker: RegisteredBroker) -> None:
        def is_lost(queue: TopicQueue) -> bool:
            return broker.share.has_queue(*queue)

        self._locks.forget(is_lost)

    @completed
    async def promote(self, name: str) -> BrokerLoss:
        """Promote the slave of a broker to master. Messages that were not replicated to the slave are lost.

        A running broker becomes the slave. A broker that is down or cut off ends, and is the slave when it
        starts again. Raises BrokerNotFoundError, BrokerStateError unless a slave runs, and a StoreError.
        """
        async with self._timer.intervention(), self._lock:
            broker = self._brokers.broker_named(name)
            self._check_has_running_slave(broker)
            return await self._promote(broker)

    async def promote_silent(self, broker: RegisteredBroker, silent_us: int) -> None:
        """Promote the slave of a broker that has been silent since ``silent_us``, if it still is.

        The caller holds the timer's lock.
        """
        async with self._lock:
            if broker.condition.silent_us == silent_us and broker.has_running_slave:
                await self._promote(broker)

    async def _promote(self, broker: RegisteredBroker) -> BrokerLoss:
        former = broker.condition
        is_slave_down = former.state != "running" or bool(former.cut_off_from)
        end = self._replication.end(broker)
        offsets = self._slave_offsets.of_broker(broker)
        down = self._ended_condition(broker, "crashed") if former.state == "running" else former
        promoted = BrokerCondition(is_promoted=not former.is_promoted, is_slave_down=is_slave_down)
        async with self._changed_to({broker: down}):
            await self._outage.update()
            lost = await self._lose(broker.share, end.at_us, end.lag_us, COPY_OFFSETS_US)
            self._brokers.set_condition(broker, promoted)
            await self._commit(offsets)
            await self._release([broker.downtime])
            await self._outage.update()
        self._forget_clients(broker)
        self._note(broker, f"promoted its slave, lost {_messages(lost)}")
        return BrokerLoss(broker, lost)

    async def _commit(self, offsets: Mapping[tuple[str, Queue], int]) -> None:
        """Commit on the broker the offsets that groups have committed on its slave."""
        for (group, queue), offset in offsets.items():
            await self._committed_offsets.report(group, queue.topic, queue.queue_id, offset)

    def _check_has_running_slave(self, broker: RegisteredBroker) -> None:
        if not broker.has_slave:
            raise BrokerStateError(f"{broker.name} has no slave; start mocketmq with --slaves 1")
        if not broker.has_running_slave:
            raise BrokerStateError(
                f"the slave of {broker.name} is down; allowed: a running slave. Start {broker.name} first"
            )

    def _running(self, name: str) -> RegisteredBroker:
        broker = self._brokers.broker_named(name)
        if broker.state != "running":
            raise BrokerStateError(f"{name} is {broker.state}; allowed: running. Start it first")
        return broker

    def _silent_us(self, broker: RegisteredBroker) -> int:
        silent_us = broker.condition.silent_us
        return self._store.clock.now_us() if silent_us is None else silent_us

    async def cut_off(self, name: str, side: CutOff) -> RegisteredBroker:
        """Cut a broker off from its clients or from the name servers. Raises the errors of ``crash``."""
        async with self._lock:
            broker = self._running(name)
            condition = broker.condition
            silent_us = self._silent_us(broker) if side == "name-servers" else condition.silent_us
            sides = condition.cut_off_from | {side}
            self._set(broker, f"cut off from {side}", cut_off_from=sides, silent_us=silent_us)
            if side == "clients":
                self._end_polls()  # polls over gRPC fail
            return broker

    async def reconnect(self, name: str) -> RegisteredBroker:
        """Undo :meth:`cut_off`. The broker registers again at once. Raises the errors of ``crash``."""
        async with self._lock:
            broker = self._running(name)
            self._set(broker, "reconnected", cut_off_from=frozenset(), silent_us=None)
            return broker

    async def set_read_only(self, name: str, *, is_read_only: bool) -> RegisteredBroker:
        """Make a broker refuse sends, or accept them again. Raises the errors of ``crash``."""
        async with self._lock:
            broker = self._running(name)
            self._set(broker, "read-only" if is_read_only else "writable", is_read_only=is_read_only)
            return broker

    def _set(self, broker: RegisteredBroker, what: str, **changed: Any) -> None:
        self._brokers.set_condition(broker, broker.condition._replace(**changed))
        self._note(broker, what)

    @completed
    async def start(self, name: str) -> RegisteredBroker:
        """Start a broker again on its ports, and deliver the messages that became due while it was down.

        If its slave was promoted, it starts as the slave. Raises BrokerNotFoundError, and BrokerStateError if
        neither the broker nor its slave is down.
        """
        async with self._lock:
            broker = self._brokers.broker_named(name)
            condition = broker.condition
            if condition.state != "running":
                started = BrokerCondition(is_promoted=condition.is_promoted)
            elif condition.is_slave_down:
                started = condition._replace(is_slave_down=False)
            else:
                raise self._runs(broker)
            await self._start({broker: started})
            return broker

    def _runs(self, broker: RegisteredBroker) -> BrokerStateError:
        return BrokerStateError(
            f"{broker.name} is running; allowed: crashed or shut-down. Crash it or shut it down first"
        )

    def _ended(self, name: str) -> RegisteredBroker:
        broker = self._brokers.broker_named(name)
        if broker.state == "running":
            raise self._runs(broker)
        return broker

    @completed
    async def wipe(self, name: str) -> RegisteredBroker:
        """Delete all data of a broker that is down, as if its disk were lost.

        Raises the errors of ``start``.
        """
        async with self._timer.intervention(), self._lock:
            broker = self._ended(name)
            await self._wipe(broker.share)
            self._note(broker, "wiped")
            return broker

    @completed
    async def start_all(self) -> None:
        """Return every broker to its normal condition: running, reachable, writable, not promoted."""
        async with self._lock:
            await self._start({each: HEALTHY for each in self._brokers if each.condition != HEALTHY})

    def heal_restored(self) -> None:
        """Set all brokers to their normal condition, once a snapshot has replaced the state.

        Also forgets the offsets committed on slaves, which could otherwise change the restored state.
        ``start_restored`` does the rest.
        """
        for each in self._brokers:
            if each.condition != HEALTHY:
                self._brokers.set_condition(each, HEALTHY)
                self._forget_locks(each)
                log.info("%s: in its normal condition after a snapshot was restored", each.name)
        self.changes.clear()

    async def start_restored(self) -> None:
        """Open the ports of all brokers, and release the messages held for brokers in a restored snapshot."""
        await self.start_all()  # start brokers that were about to end
        await self._outage.update()
        await self.load()

    async def _start(self, conditions: Mapping[RegisteredBroker, BrokerCondition]) -> None:
        if not conditions:
            return
        handed_back: dict[tuple[str, Queue], int] = {}
        for each in conditions:
            if self._brokers.has_acting_masters and each.state != "running":
                handed_back |= self._slave_offsets.of_broker(each)  # BrokerPreOnlineService.java, 5.3.3
                self._forget_locks(each)  # the slave's queue locks
        async with self._changed_to(conditions):
            await self._commit(handed_back)
            await self._release([each.downtime for each in conditions])
            await self._outage.update()
        for each in conditions:
            self._note(each, "started")

    @asynccontextmanager
    async def _changed_to(
        self, conditions: Mapping[RegisteredBroker, BrokerCondition]
    ) -> AsyncIterator[None]:
        """Change the condition of brokers. If the rest of the change fails, restore conditions and ports."""
        former = {each: each.condition for each in conditions}
        for each, condition in conditions.items():
            self._brokers.set_condition(each, condition)
        try:
            yield
        except BaseException:
            for each, before in former.items():
                self._brokers.set_condition(each, before)
            await self._outage.update()
            raise

    def _note(self, broker: RegisteredBroker, what: str) -> None:
        log.info("%s: %s", broker.name, what)
        after_offset = self._store.writer.next_log_offset - 1
        self.changes.append(BrokerChange(self._store.clock.now_us(), after_offset, broker.name, what))

    async def _release(self, downtimes: Sequence[str]) -> None:
        def work(batch: Batch) -> None:
            for each in downtimes:
                self._held.release(batch, each)

        if downtimes:
            await self._store.writer.commit(work)


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"
