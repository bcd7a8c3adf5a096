"""A partition of a real Kafka: the later of two relays gets it, and its messages leave in order."""

import gc
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

import pytest
from aiokafka.structs import ConsumerRecord

from mocketmq.clock import US_PER_S
from mocketmq.relay import serving
from mocketmq.relay.judging import Judge
from mocketmq.relay.kafka.options import parse_options
from mocketmq.relay.kafka.partition import KafkaPartition, SharedState
from mocketmq.relay.kafka.topics import KafkaTopics, TopicState
from mocketmq.relay.partition import LostPartitionError, RelayedMessage, RelayTopics, Settled
from mocketmq.relay.serving import Serving
from mocketmq.relay.shelf import Shelf
from mocketmq_compat.delay.memory_store import MemoryStore
from tests.doors.remoting.gates import until
from tests.relay.places import PARTITIONS, Place

pytestmark = pytest.mark.interop


@asynccontextmanager
async def shared_state(place: Place) -> AsyncIterator[SharedState]:
    """Return the shared state of partitions, in a group that appears to have committed nothing."""

    async def committed(_: object) -> int | None:
        return None  # as Kafka may still report just after a transaction

    async def permission(_number: int, _was_fenced: bool) -> None:
        pass

    names = RelayTopics(place.delay, f"{place.delay}-pending", f"{place.delay}-refused")
    options = parse_options(place.kafka.bootstrap, [])
    topics = KafkaTopics(names, options.common)
    try:
        await topics.open()
        yield SharedState("relays", options, topics, Judge(60 * US_PER_S, names), committed, permission)
    finally:
        await topics.close()


async def taken_over(partition: KafkaPartition) -> list[RelayedMessage | Settled]:
    """Take over the partition, and return its log."""
    return [one async for some in partition.restore() for one in some]


async def arriving(partition: KafkaPartition, count: int) -> Sequence[ConsumerRecord]:
    """Read exactly this many messages of the delay topic."""
    found: list[ConsumerRecord] = []
    while len(found) < count:
        found += await partition.arrivals()
    assert len(found) == count
    return found


async def test_a_fenced_relay_changes_nothing_and_no_message_is_lost_or_kept_twice(place: Place) -> None:
    async with shared_state(place) as shared, place.kafka.producer() as producer:
        old, new = KafkaPartition(shared, 0), KafkaPartition(shared, 0)
        try:
            assert await taken_over(old) == []
            await place.send(producer, range(3), over_ms=0, partition=0)
            kept = await old.keep(await arriving(old, 3))
            await place.send(producer, range(3, 5), over_ms=0, partition=0)
            late = await arriving(old, 2)
            assert await taken_over(new) == kept
            with pytest.raises(LostPartitionError):
                await old.keep(late)
            with pytest.raises(LostPartitionError):
                await old.forward(kept)
            kept_late = await new.keep(await arriving(new, 2))
            assert await new.forward([*kept, *kept_late]) == {one.id for one in (*kept, *kept_late)}
            await old.close()
            again = await taken_over(old)
            assert {one.number for one in again if isinstance(one, Settled)} == set(range(5))
        finally:
            await old.close()
            await new.close()
    del old, new
    gc.collect()  # logs the leftovers of a fenced producer here, where they disturb no other test
    async with place.kafka.reader(place.real, PARTITIONS) as reader:
        place.check(await reader.to_end())


async def test_messages_that_waited_for_a_leader_are_not_overtaken(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "PAUSES_S", (5,))
    leaderless, described = {place.real}, KafkaTopics.states

    async def states(topics: KafkaTopics, names: Collection[str]) -> dict[str, TopicState]:
        """Simulate partitions without a leader, which one broker does not have."""
        found = await described(topics, names)
        return found | dict.fromkeys(leaderless & {*names}, TopicState.LEADERLESS)

    async with shared_state(place) as shared, place.kafka.producer() as producer:
        relay = Serving(KafkaPartition(shared, 0), lambda: Shelf(MemoryStore()))
        try:
            monkeypatch.setattr(KafkaTopics, "states", states)
            await place.send(producer, range(14), over_ms=0, partition=0)
            await until(lambda: relay._hold is not None and relay._hold.shelf.aside == 14)
            leaderless.clear()
            await place.send(producer, range(14, 21), over_ms=0, partition=0)
            await until(lambda: relay.forwarded == 21)
        finally:
            await relay.end()
    async with place.kafka.reader(place.real, PARTITIONS) as reader:
        records = await reader.to_end()
    place.check(records)
    for partition in range(PARTITIONS):
        values = [int(one.value) for one in records if one.partition == partition]
        assert values == sorted(values)
