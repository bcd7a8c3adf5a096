"""A partition on a real Kafka that two relays believe to be theirs: the one that came later has it."""

import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from aiokafka.structs import ConsumerRecord

from mocketmq.clock import US_PER_S
from mocketmq.relay.judging import Judge
from mocketmq.relay.kafka.options import parse_options
from mocketmq.relay.kafka.partition import KafkaPartition, SharedState
from mocketmq.relay.kafka.topics import KafkaTopics, TopicNames
from mocketmq.relay.partition import LostPartitionError, Pending, Settled
from tests.relay.places import PARTITIONS, Place

pytestmark = pytest.mark.interop


@asynccontextmanager
async def shared_state(place: Place) -> AsyncIterator[SharedState]:
    """What partitions need, in a group that has committed nothing yet, as far as it is told."""

    async def committed(_: object) -> int | None:
        return None  # as Kafka may still say just after a transaction

    async def permission(_number: int, _was_fenced: bool) -> None:
        pass

    names = TopicNames(place.delay, f"{place.delay}-pending", f"{place.delay}-refused")
    options = parse_options(place.kafka.bootstrap, [])
    topics = KafkaTopics(names, options.common)
    try:
        await topics.open()
        yield SharedState("relays", options, topics, Judge(60 * US_PER_S, names), committed, permission)
    finally:
        await topics.close()


async def taken_over(partition: KafkaPartition) -> list[Pending | Settled]:
    """Take it over; its log."""
    return [one async for some in partition.restore() for one in some]


async def arriving(partition: KafkaPartition, count: int) -> Sequence[ConsumerRecord]:
    """Exactly so many messages of the delay topic."""
    found: list[ConsumerRecord] = []
    while len(found) < count:
        found += await partition.arrivals()
    assert len(found) == count
    return found


async def test_who_was_overtaken_can_change_nothing_and_nothing_is_lost_or_kept_twice(place: Place) -> None:
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
    gc.collect()  # here, what a fenced producer of the client leaves behind is logged, and disturbs nobody
    async with place.kafka.reader(place.real, PARTITIONS) as reader:
        place.check(await reader.to_end())
