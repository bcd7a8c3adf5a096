"""Ownership of queues, and when a relay trusts a lock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.calling.connection import ClientConnection
from mocketmq.clock import US_PER_S
from mocketmq.relay.partition import LostPartitionError
from mocketmq.relay.rocketmq import membership
from mocketmq.relay.rocketmq.brokers import RemoteBroker
from mocketmq.relay.rocketmq.membership import Locks, share_of
from mocketmq.relay.rocketmq.queue import RemoteQueue
from tests.support.relays import GROUP, LATER, LONG_US
from tests.support.remoting import running_remoting


@given(st.integers(0, 40), st.sets(st.text(min_size=1), min_size=1, max_size=8))
def test_queues_are_divided_evenly_among_members(queues: int, members: set[str]) -> None:
    shares = [share_of(range(queues), members, member) for member in members]
    assert sorted(each for share in shares for each in share) == list(range(queues))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_an_unregistered_member_counts_itself() -> None:
    assert share_of("abcd", {"1"}, "2") == ["b", "d"]


async def test_lock_is_trusted_for_half_its_life_on_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_us = 0
    monkeypatch.setattr(membership, "steady_us", lambda: now_us)
    async with running_remoting(auto_create_topics="send") as remoting:
        remoting.broker.queue_locks.lifetime_us = LONG_US  # by the broker's clock, which is real
        address = f"{remoting.emulator.settings.host}:{remoting.server.broker_port}"
        broker = RemoteBroker("mocketmq", ClientConnection(address), ClientConnection(address))
        queue = RemoteQueue(broker, GROUP, LATER, 0)
        ours, theirs = Locks(GROUP, "ours", 60 * US_PER_S), Locks(GROUP, "theirs", 60 * US_PER_S)
        hold = await ours.take(queue)
        assert hold
        assert await theirs.take(queue) is None
        now_us = 29 * US_PER_S
        hold.check()
        await ours.renew()
        now_us = 58 * US_PER_S
        hold.check()
        now_us = 59 * US_PER_S
        with pytest.raises(LostPartitionError):
            hold.check()
        await ours.renew()
        hold.check()
        await broker.requests.close()
        assert not hold.is_believed
        await broker.requests.call(38, {"consumerGroup": GROUP})  # the connection is open again
        assert not hold.is_believed
        await ours.renew()
        hold.check()
        await ours.release(hold)
        assert not hold.is_believed
        assert await theirs.take(queue)
        await broker.close()
