"""Divides the partitions of a delay topic in Kafka among relays, with a consumer group.

The group member fetches no records and only receives its assignment. During a rebalance, a relay continues to
work on a partition until another relay fences its transactional producer.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable
from typing import Final

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

from mocketmq.relay.judging import Judge
from mocketmq.relay.kafka.options import KafkaOptions
from mocketmq.relay.kafka.partition import KafkaPartition, SharedState
from mocketmq.relay.kafka.topics import KafkaTopics, said
from mocketmq.relay.partition import LostPartitionError, RelayError, RelayTopics

log = logging.getLogger(__name__)

_POLL_MS: Final = 1_000
_HEARTBEAT_MS: Final = 3_000  # the client's default
_AGAIN_S: Final = 2.0
_CLOSING_S: Final = 5.0


class KafkaCluster:
    """Implements :class:`~mocketmq.relay.partition.Cluster`."""

    def __init__(self, group: str, names: RelayTopics, options: KafkaOptions, judge: Judge) -> None:
        self.again_s = _AGAIN_S
        self._group = group
        self._options = options
        self._topics = KafkaTopics(names, options.common)
        self._shared = SharedState(group, options, self._topics, judge, self._committed, self._permission)
        self._partitions: dict[int, KafkaPartition] = {}
        self._owned: frozenset[int] | None = None
        self._announced: frozenset[int] | None = None
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()  # set while no rebalance is in progress
        self._member: AIOKafkaConsumer | None = None
        self._staying: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Create missing topics and join the group. Raises RelayError."""
        await self._topics.open()
        try:
            await self._join()
        except KafkaError as error:
            raise RelayError(f"the group {self._group} cannot be joined ({said(error)})") from error
        self._staying = asyncio.create_task(self._stay(), name="relay-member")

    async def changed(self) -> Collection[KafkaPartition]:
        """Wait until the assignment changes."""
        while self._owned is None or self._owned == self._announced:
            self._changed.clear()
            await self._changed.wait()
        while any(number >= self._topics.partitions for number in self._owned):
            try:
                await self._topics.prepare()
            except RelayError as error:
                log.warning("%s; retrying", error)
                await asyncio.sleep(self.again_s)
        self._announced = self._owned
        for number in self._owned - self._partitions.keys():
            self._partitions[number] = KafkaPartition(self._shared, number)
        return [self._partitions[number] for number in sorted(self._owned)]

    async def close(self) -> None:
        """Leave the group."""
        if self._staying is not None:
            self._staying.cancel()
            await asyncio.gather(self._staying, return_exceptions=True)
        await self._leave()
        await self._topics.close()

    # The group's member

    async def _join(self) -> None:
        self._member = AIOKafkaConsumer(
            group_id=self._group,
            enable_auto_commit=False,
            partition_assignment_strategy=(StickyPartitionAssignor,),
            **self._options.common,
            **self._options.group,
        )
        self._member.subscribe([self._topics.names.delayed], listener=_Listener(self))
        await self._member.start()

    async def _stay(self) -> None:
        """Poll the client repeatedly, because a client without polls leaves the group."""
        while True:
            try:
                if self._member is None:
                    await self._join()
                while self._member is not None:
                    await self._member.getmany(timeout_ms=_POLL_MS)
            except Exception as error:  # noqa: BLE001 - without polls, the group would remove the relay
                reason = said(error) if isinstance(error, KafkaError) else repr(error)
                log.warning("rejoining group %s: %s", self._group, reason)
                await self._leave()
                await asyncio.sleep(self.again_s)

    async def _leave(self) -> None:
        member, self._member = self._member, None
        if member is not None:
            await asyncio.wait([asyncio.create_task(member.stop())], timeout=_CLOSING_S)

    def rebalancing(self) -> None:
        """Record that a rebalance has begun."""
        self._settled.clear()

    def assigned(self, places: Iterable[TopicPartition]) -> None:
        """Take over the new assignment."""
        places = {*places}
        if self._member is not None:
            self._member.pause(*places)
        self._owned = frozenset(place.partition for place in places)
        self._settled.set()
        self._changed.set()

    # Used by partitions

    async def _committed(self, place: TopicPartition) -> int | None:
        if self._member is None:
            raise KafkaError("the relay is rejoining the group")
        committed: int | None = await self._member.committed(place)
        return committed

    async def _permission(self, number: int, was_fenced: bool) -> None:
        """Wait until no rebalance is in progress. A relay may be fenced before it learns of the rebalance."""
        if was_fenced:
            await asyncio.sleep(self._options.group.get("heartbeat_interval_ms", _HEARTBEAT_MS) / 1_000)
        await self._settled.wait()
        if self._owned is None or number not in self._owned:
            raise LostPartitionError("another relay has taken it over")


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # it is untyped
    """Notifies the cluster of rebalances."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:  # noqa: ARG002 - always all
        """Notify the cluster that a rebalance has begun."""
        self._cluster.rebalancing()

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Notify the cluster that the rebalance has ended."""
        self._cluster.assigned(assigned)
