"""A queue of the delay topic whose sends fail, or whose hold ends between a send and its settlement."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import pytest

from mocketmq.broker.broker import Broker
from mocketmq.calling.call import NoAnswerError
from mocketmq.faults.rule import FaultRule
from mocketmq.relay.judging import RELAY_DELAY_MS, RELAY_TOPIC
from mocketmq.relay.partition import RelayedMessage, Settled
from mocketmq.relay.rocketmq.partition import RocketPartition
from mocketmq.relay.rocketmq.pending_log import PendingLog
from mocketmq.relay.rocketmq.real_topics import SHARDING_KEY
from tests.support.relays import LATER, LONG_US, ORDERS, User, cluster_of, user_of
from tests.support.remoting import running_remoting


async def taken_over(partition: RocketPartition) -> list[int]:
    """Take over the queue, and return the numbers of pending messages."""
    found: dict[Settled, None] = {}
    async for some in partition.restore():
        for each in some:
            if isinstance(each, RelayedMessage):
                found[Settled(each.number, each.due_us)] = None
            else:
                found.pop(each, None)
    return [each.number for each in found]


@asynccontextmanager
async def holding(
    count: int, properties: dict[str, str]
) -> AsyncIterator[tuple[RocketPartition, list[RelayedMessage], Broker, User]]:
    """A partition that was taken over and has kept this many due messages, ``0``, ``1`` and so on."""
    async with running_remoting(clock="real") as remoting:
        remoting.broker.queue_locks.lifetime_us = LONG_US
        host = remoting.emulator.settings.host
        async with user_of(host, remoting.server.broker_port) as user:
            await user.make_topic(LATER, 1)
            for number in range(count):
                words = {RELAY_TOPIC: ORDERS, RELAY_DELAY_MS: "0"}
                await user.send(b"%d" % number, words | properties, queue_id=0)
            cluster = cluster_of(f"{host}:{remoting.server.namesrv_port}")
            await cluster.open()
            try:
                [partition] = await cluster.changed()
                assert await taken_over(partition) == []
                kept: list[RelayedMessage] = []
                while len(kept) < count:
                    kept += await partition.keep(await partition.arrivals())
                yield partition, kept, remoting.broker, user
            finally:
                await cluster.close()


async def test_sent_messages_are_settled_even_without_connection_and_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settle = PendingLog.settle

    async def fails(_log: PendingLog, _left: Collection[RelayedMessage]) -> None:
        raise NoAnswerError("the connection broke")

    async with holding(2, {}) as (partition, kept, _, _):
        monkeypatch.setattr(PendingLog, "settle", fails)
        assert await partition.forward(kept) == {each.id for each in kept}
        monkeypatch.setattr(PendingLog, "settle", settle)
        await partition.delayed.broker.requests.close()
        await partition.close()
        assert await taken_over(partition) == []
        await partition.close()


async def test_messages_of_a_sharding_key_wait_for_an_earlier_one_that_failed() -> None:
    async with holding(5, {SHARDING_KEY: "order 7"}) as (partition, kept, broker, user):
        refusal = FaultRule(do="refuse", operation="send", topic=ORDERS, error="SYSTEM_BUSY", next=1)
        await broker.faults.add_rule(refusal)
        assert await partition.forward(kept[1:3]) == set()
        assert await partition.forward(kept[3:4]) == set()
        assert await partition.forward([kept[0], kept[4]]) == {kept[0].id}
        assert await partition.forward(kept[1:]) == {each.id for each in kept[1:]}
        await partition.close()
        records = await user.received([b"%d" % number for number in range(5)])
    assert [record.body for record in records] == [b"%d" % number for number in range(5)]
