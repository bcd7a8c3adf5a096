"""Group members of two versions come and go while messages flow, as in an upgrade."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import WAIT_S, Driver
from tests.doors.remoting.consuming import committed
from tests.support.remoting import RemotingClient, connected

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

OLD, NEW = "java-4.9", "java-5.5"
QUEUES = 4
FLOW = 300
"""Number of messages sent while queues are handed over."""


class Group:
    """A group of two members, named like its topic. ``times`` counts the deliveries of each body."""

    def __init__(self, client: RemotingClient, topic: str, drivers: Mapping[str, Driver]) -> None:
        self.times: Counter[str] = Counter()
        self._client = client
        self._topic = topic
        self._drivers = drivers
        self._sent = 0

    async def join(self, member: str) -> None:
        await self._drivers[member].call(
            "consume", group=self._topic, topic=self._topic, member=self._name(member), commit_every_ms=500
        )

    async def leave(self, member: str) -> None:
        await self._drivers[member].call("close", member=self._name(member))

    async def has(self, member: str, count: int) -> None:
        """Wait until the client consumes this many queues."""
        call = {"member": self._name(member), "topic": self._topic, "count": count}
        assert len(await self._drivers[member].call("queues", **call)) == count

    @asynccontextmanager
    async def flow(self) -> AsyncIterator[None]:
        """Send messages during the context. Each must be delivered, committed, and then never repeated."""
        before = await self._committed()
        sending = asyncio.create_task(self._send())
        yield
        await sending
        async with asyncio.timeout(WAIT_S):
            while sum(await self._committed()) < self._sent:
                pass
        for member, driver in self._drivers.items():
            for given in driver.received.pop(self._name(member), ()):
                assert given.queue_offset >= before[given.queue_id], given
                self.times[given.body] += 1
        assert self.times.keys() == set(map(str, range(self._sent)))

    async def _send(self) -> None:
        for number in range(self._sent, self._sent + FLOW):
            await self._drivers[NEW].call("send_orderly", topic=self._topic, body=str(number), number=number)
            self._sent += 1

    async def _committed(self) -> list[int]:
        place = {"topic": self._topic, "group": self._topic}
        return [await committed(self._client, queue, **place) or 0 for queue in range(QUEUES)]

    def _name(self, member: str) -> str:
        return f"{self._topic}-{member}"


@pytest.mark.feature("Push consumer", OLD, NEW)
async def test_members_come_and_go(
    broker: RemotingBroker, java_4_9: Driver, java_5_5: Driver, topic: str
) -> None:
    """No message is lost. Messages that a queue's former owner had not committed may be repeated once."""
    await broker.control.put_topic(topic, read_queues=QUEUES, write_queues=QUEUES)
    async with connected(broker.host, broker.port) as client:
        group = Group(client, topic, {OLD: java_4_9, NEW: java_5_5})
        await group.join(OLD)
        async with group.flow():
            await group.has(OLD, QUEUES)
        for stays, comes in ((OLD, NEW), (NEW, OLD)):
            async with group.flow():
                await group.join(comes)
                for member in (stays, comes):
                    await group.has(member, QUEUES // 2)
            async with group.flow():
                await group.leave(stays)
                await group.has(comes, QUEUES)
        await group.leave(OLD)
    assert max(group.times.values()) <= 2
