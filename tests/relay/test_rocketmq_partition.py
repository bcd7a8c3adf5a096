"""A queue of the delay topic whose hold ends between a send and its settlement."""

from collections.abc import Collection

import pytest

from mocketmq.broker.consuming import queue_locks
from mocketmq.calling import call
from mocketmq.calling.call import NoAnswerError
from mocketmq.relay.judging import RELAY_DELAY_MS, RELAY_TOPIC
from mocketmq.relay.partition import Pending, Settled
from mocketmq.relay.rocketmq.partition import RocketPartition
from mocketmq.relay.rocketmq.pending_log import PendingLog
from tests.support.patience import HANGING_S
from tests.support.relays import LATER, LONG_US, ORDERS, cluster_of, user_of
from tests.support.remoting import running_remoting


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let requests take long on a busy machine, and locks live long."""
    monkeypatch.setattr(call, "CALL_S", HANGING_S)
    monkeypatch.setattr(queue_locks, "LIFETIME_US", LONG_US)


async def taken_over(partition: RocketPartition) -> list[int]:
    """Take it over; the numbers of what is pending."""
    found: dict[Settled, None] = {}
    async for some in partition.restore():
        for each in some:
            if isinstance(each, Pending):
                found[Settled(each.number, each.due_us)] = None
            else:
                found.pop(each, None)
    return [each.number for each in found]


async def test_what_has_left_is_settled_even_when_the_connection_and_the_lock_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settle = PendingLog.settle

    async def fails(_log: PendingLog, _left: Collection[Pending]) -> None:
        raise NoAnswerError("the connection broke")

    async with running_remoting(clock="real") as remoting:
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
                kept: list[Pending] = []
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
