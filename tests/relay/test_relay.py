"""A relay whose group assigns and revokes partitions."""

import asyncio
from collections.abc import Collection, Sequence

import pytest

from mocketmq.clock import LATEST_US
from mocketmq.relay.partition import RelayedMessage, RelayError
from mocketmq.relay.relay import Relay
from mocketmq.relay.shelf import Shelf
from mocketmq_compat.delay.memory_store import MemoryStore
from tests.relay.log_broker import LogBroker, LogPartition
from tests.support.patience import PATIENCE_S

FAR_US = LATEST_US // 1_000 * 1_000


class Group:
    """A group that assigns the relay the partitions that a test sets."""

    def __init__(self) -> None:
        self.given: asyncio.Queue[Collection[LogPartition] | RelayError] = asyncio.Queue()
        self.log: list[str] = []

    async def open(self) -> None:
        """Record the call."""
        self.log.append("open")

    async def changed(self) -> Collection[LogPartition]:
        """Return the next assignment."""
        given = await self.given.get()
        if isinstance(given, RelayError):
            raise given
        return given

    async def close(self) -> None:
        """Record the call."""
        self.log.append("close")


class Running:
    """A relay, and its reports."""

    def __init__(self, group: Group) -> None:
        self.told: asyncio.Queue[tuple[Sequence[str], int]] = asyncio.Queue()
        self.stop = asyncio.Event()
        self.relay = Relay(group, lambda: Shelf(MemoryStore()), lambda *told: self.told.put_nowait(told))
        self.task = asyncio.create_task(self.relay.run(self.stop))

    async def served(self) -> tuple[Sequence[str], int]:
        """Return the relay's next report: its partitions, and the number of pending messages."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.told.get()


async def test_relay_serves_its_assignment_and_reports_it() -> None:
    group, brokers = Group(), [LogBroker(), LogBroker()]
    one, two = (LogPartition(broker, f"delayed-{n}") for n, broker in enumerate(brokers))
    brokers[0].log.append(RelayedMessage("id-0", 0, FAR_US, b"body"))
    running = Running(group)
    group.given.put_nowait([one, two])
    assert await running.served() == (["delayed-0", "delayed-1"], 1)
    await brokers[1].send(0)
    await brokers[1].until_out(1)
    group.given.put_nowait([one])
    assert await running.served() == (["delayed-0"], 1)
    assert (one.closed, two.closed) == (0, 1)
    group.given.put_nowait([])
    assert await running.served() == ([], 0)
    group.given.put_nowait([one])
    assert await running.served() == (["delayed-0"], 1)
    running.stop.set()
    await running.task
    figures = running.relay.figures()
    assert (figures.kept, figures.forwarded, figures.pending) == (1, 1, 0)
    assert group.log == ["open", "close"]
    assert one.closed == 2


async def test_ended_group_closes_the_relay_in_order() -> None:
    group, partition = Group(), LogPartition(LogBroker())
    running = Running(group)
    group.given.put_nowait([partition])
    await running.served()
    group.given.put_nowait(RelayError("the group is forbidden"))
    with pytest.raises(RelayError, match="the group is forbidden"):
        await running.task
    assert (partition.closed, group.log) == (1, ["open", "close"])
