"""A queue of the delay topic whose hold ends between a send and its settlement."""

from collections.abc import Collection

import pytest

from mocketmq.calling.call import NoAnswerError
from mocketmq.relay.judging import RELAY_DELAY_MS, RELAY_TOPIC
from mocketmq.relay.partition import RelayedMessage, Settled
from mocketmq.relay.rocketmq.partition import RocketPartition
from mocketmq.relay.rocketmq.pending_log import PendingLog
from tests.support.relays import LATER, LONG_US, ORDERS, cluster_of, user_of
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


async def test_sent_messages_are_settled_even_without_connection_and_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settle = PendingLog.settle

    async def fails(_log: PendingLog, _left: Collection[RelayedMessage]) -> None:
        raise NoAnswerError("the connection broke")

    async with running_remoting(clock="real") as remoting:
        remoting.broker.queue_locks.lifetime_us = LONG_US
        host = remoting.emulator.settings.host
        async with user_of(host, remoting.server.broker_port) as user:
            await user.make_topic(LATER, 1)
            for body in (b"0", b"1"):
                await user.send(body, {RELAY_TOPIC: ORDERS, RELAY_DELAY_MS: "0"}, queue_id=0)
            cluster = cluster_of(f"{host}:{remoting.server.namesrv_port}")
            await cluster.open()
            try:
                [partition] = await cluster.changed()
                assert await taken_over(partition) == []
                kept: list[RelayedMessage] = []
                while len(kept) < 2:
                    kept += await partition.keep(await partition.arrivals())
                monkeypatch.setattr(PendingLog, "settle", fails)
                assert await partition.forward(kept) == {each.id for each in kept}
                monkeypatch.setattr(PendingLog, "settle", settle)
                await partition.delayed.broker.requests.close()
                await partition.close()
                assert await taken_over(partition) == []
                await partition.close()
            finally:
                await cluster.close()
