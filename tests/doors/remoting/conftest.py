"""Fixtures of tests of the remoting door."""

from collections.abc import AsyncIterator

import pytest

from mocketmq.remoting import channel
from mocketmq.remoting.channel import RemotingChannel
from tests.support.patience import PATIENCE_S
from tests.support.remoting import Remoting, running_remoting


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers wait for clients that a busy machine holds up."""
    monkeypatch.setattr(channel, "STATUS_S", PATIENCE_S)
    monkeypatch.setattr(RemotingChannel.call, "__defaults__", (b"", PATIENCE_S))


@pytest.fixture
async def remoting() -> AsyncIterator[Remoting]:
    async with running_remoting() as remoting:
        yield remoting
