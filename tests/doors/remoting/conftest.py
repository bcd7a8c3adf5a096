"""Fixtures of the remoting tests."""

from collections.abc import AsyncIterator

import pytest

from mocketmq.remoting.channel import RemotingChannel
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
