"""Fixtures of the remoting tests."""

from collections.abc import AsyncIterator

import pytest

from mocketmq.remoting.channel import RemotingChannel
from tests.doors.remoting.broker_pairs import QUEUES, Pair, running_pair
from tests.support.brokers import TOPIC
from tests.support.patience import PATIENCE_S
from tests.support.remoting import Remoting, running_remoting


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make brokers wait longer for clients, which a busy machine delays."""
    monkeypatch.setattr(RemotingChannel, "status_s", PATIENCE_S)
    monkeypatch.setattr(RemotingChannel, "call_s", PATIENCE_S)


@pytest.fixture
async def remoting() -> AsyncIterator[Remoting]:
    async with running_remoting() as remoting:
        yield remoting


@pytest.fixture
async def pair() -> AsyncIterator[Pair]:
    async with running_pair() as pair:
        await pair.broker.registry.topics.put(TOPIC, QUEUES, QUEUES, 6)
        yield pair
