"""Divides the queues of a delay topic in RocketMQ among relays, and creates the relay's topics."""

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import Final

from mocketmq.calling.call import OPEN_ACCESS, ClusterAccess, ClusterError
from mocketmq.calling.connection import ClientConnection, open_group
from mocketmq.calling.headers import topic_ext
from mocketmq.calling.name_servers import BrokerQueues, NameServers
from mocketmq.clock import US_PER_S
from mocketmq.errors import EmulatorError
from mocketmq.relay.judging import Judge
from mocketmq.relay.partition import RelayError, RelayTopics
from mocketmq.relay.rocketmq.brokers import RemoteBroker, RemoteBrokers
from mocketmq.relay.rocketmq.membership import Locks, Membership, share_of
from mocketmq.relay.rocketmq.partition import RocketPartition
from mocketmq.relay.rocketmq.pending_log import PendingLog
from mocketmq.relay.rocketmq.queue import RemoteQueue
from mocketmq.relay.rocketmq.real_topics import RealTopics
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.command import Command

log = logging.getLogger(__name__)

_REVIEW_S: Final = 10.0
_QUEUES: Final = 4
"""Number of queues per broker, for a delay topic that the relay creates."""
_BEHIND: Final = 1 << 62
"""An offset beyond all messages."""


class RocketCluster:
    """Implements :class:`~mocketmq.relay.partition.Cluster`."""

    def __init__(
        self,
        name_servers: str,
        topics: RelayTopics,
        group: str,
        judge: Judge,
        *,
        carry_after_us: int,
        lock_us: int,
        access: ClusterAccess = OPEN_ACCESS,
    ) -> None:
        connect = partial(ClientConnection, access=access, on_request=self._hear)
        self._name_servers = NameServers(name_servers, connect, lambda text: log.info("%s", text))
        self._brokers = RemoteBrokers(connect)
        self._topics = topics
        self._group = group
        self._judge = judge
        self._carry_after_us = carry_after_us
        self._membership = Membership(group, (topics.delayed, topics.pending))
        self._locks = Locks(group, self._membership.client_id, lock_us)
        self._real_topics = RealTopics(self._name_servers, self._brokers, group)
        self._partitions: dict[tuple[RemoteBroker, int], RocketPartition] = {}  # queues of all members
        self._mine: list[RocketPartition] | None = None
        self._news = asyncio.Event()
        self._changes = asyncio.Event()
        self._work: list[asyncio.Task[None]] = []
        self._trouble = ""

    def _hear(self, request: Command) -> None:
        if request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._news.set()

    async def open(self) -> None:
        """Create missing topics and join the group."""
        try:
            if await self._name_servers.route(self._topics.delayed) is None:
                await self._make_delay_topic()
            await self._find_queues()
            await self._review()
        except ClusterError as error:
            raise RelayError(str(error)) from error
        self._work = [asyncio.create_task(self._review_on()), asyncio.create_task(self._renew_on())]

    async def changed(self) -> Collection[RocketPartition]:
        """Wait until the assignment changes."""
        await self._changes.wait()
        self._changes.clear()
        return list(self._mine or ())

    async def close(self) -> None:
        """Leave the group."""
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        await self._membership.leave(self._masters)
        await self._brokers.close()
        await self._name_servers.close()

    # Members

    @property
    def _masters(self) -> set[RemoteBroker]:
        return {broker for broker, _ in self._partitions}

    async def _review_on(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_REVIEW_S):
                    await self._news.wait()
            self._news.clear()
            try:
                await self._find_queues()
                await self._review()
            except (EmulatorError, LookupError, ValueError) as error:
                if str(error) != self._trouble:
                    self._trouble = str(error)
                    log.warning("keeping the last known members of the group: %s", error)
            else:
                self._trouble = ""

    async def _review(self) -> None:
        """Refresh the list of members and this relay's share of the queues."""
        members = await self._membership.join(self._masters)
        order = sorted(self._partitions, key=lambda place: (place[0].name, place[1]))
        places = share_of(order, members, self._membership.client_id)
        mine = [self._partitions[place] for place in places]
        if mine != self._mine:
            self._mine = mine
            self._changes.set()

    async def _renew_on(self) -> None:
        while True:
            await asyncio.sleep(self._locks.life_us / 6 / US_PER_S)
            await self._locks.renew()

    # Topics

    async def _make_delay_topic(self) -> None:
        topic = self._topics.delayed
        for name, address in (await self._name_servers.masters()).items():
            await self._make_topic(self._brokers.at(address, name), topic, _QUEUES)
        await self._name_servers.new_route(topic)

    async def _find_queues(self) -> None:
        """Find the queues of the delay topic, and create missing topics on the same brokers."""
        found: dict[tuple[RemoteBroker, int], RocketPartition] = {}
        for each in await self._name_servers.route(self._topics.delayed) or ():
            broker = self._brokers.at(each.address, each.broker)
            places = [(broker, number) for number in range(each.readable)]
            if any(place not in self._partitions for place in places):
                await self._prepare(broker, each)
            found |= {place: self._partitions.get(place) or self._partition(*place) for place in places}
        if not found:
            raise ClusterError(f"topic {self._topics.delayed} cannot be read on any broker with a master")
        self._partitions = found

    def _partition(self, broker: RemoteBroker, number: int) -> RocketPartition:
        delayed, pending, refused = (
            RemoteQueue(broker, self._group, topic, number) for topic in self._topics
        )
        return RocketPartition(
            delayed,
            PendingLog(pending, self._carry_after_us),
            refused._replace(queue_id=0),
            self._locks,
            self._real_topics,
            self._judge,
        )

    async def _prepare(self, broker: RemoteBroker, delayed: BrokerQueues) -> None:
        """Create the relay's topics and consumer group on a broker."""
        for topic, queues in ((self._topics.pending, delayed.readable), (self._topics.refused, 1)):
            route = await self._name_servers.route(topic) or ()
            there = max((each.readable for each in route if each.address == delayed.address), default=0)
            if there < queues:
                await self._make_topic(broker, topic, queues)
        await open_group(
            broker.requests, broker.name, self._group, self._topics.delayed, _BEHIND, "create it first"
        )

    async def _make_topic(self, broker: RemoteBroker, topic: str, queues: int) -> None:
        made = await broker.requests.call(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_ext(topic, queues))
        if made.code != ResponseCode.SUCCESS:
            raise ClusterError(
                f"broker {broker.name} did not create topic {topic} with {queues} queues: {made.reason};"
                " create it first"
            )
