"""A user of a relay in front of RocketMQ, who sends delayed messages and reads from other topics."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import tzinfo
from typing import Any, Final

from mocketmq.calling.call import ClusterAccess, Credentials
from mocketmq.calling.headers import pull_ext, send_ext, topic_ext
from mocketmq.clock import US_PER_MS, US_PER_S, wall_us
from mocketmq.message.message_id import new_unique_key
from mocketmq.message.properties import UNIQ_KEY
from mocketmq.relay.judging import RELAY_DELAY_MS, RELAY_ID, RELAY_TOPIC, Judge
from mocketmq.relay.partition import RelayTopics
from mocketmq.relay.relay import Relay
from mocketmq.relay.rocketmq.cluster import RocketCluster
from mocketmq.relay.shelf import shelves
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.record import WireRecord, decode_properties, decode_records
from tests.support.fork_server import Forked, fork
from tests.support.patience import HANGING_S
from tests.support.process import clean_environment
from tests.support.remoting import RemotingClient, connected

ACCESS: Final = ClusterAccess(call_s=HANGING_S)
LATER, ORDERS, GROUP = "later", "orders", "relays"
QUEUES: Final = 4
LONG_US: Final = 2 * round(HANGING_S) * US_PER_S
"""Lifetime of locks in tests that kill no relay; a relay trusts a lock for half of its lifetime."""
LOCK_S: Final = 4
"""Lifetime of locks in tests that kill relays."""
DAY_US: Final = 86_400 * US_PER_S
_POLL_S: Final = 0.05


class User:
    """A user of one broker. ``read`` holds all messages received so far, by topic."""

    def __init__(self, client: RemotingClient) -> None:
        self.read: defaultdict[str, list[WireRecord]] = defaultdict(list)
        self._client = client
        self._queues: dict[str, int] = {}
        self._offsets: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._sent = 0

    async def make_topic(self, topic: str, queues: int = QUEUES) -> None:
        """Create the topic."""
        await self._client.ok(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_ext(topic, queues))
        self._queues[topic] = queues

    async def send(
        self,
        body: bytes,
        properties: Mapping[str, str],
        topic: str = LATER,
        queue_id: int | None = None,
        sys_flag: int = 0,
    ) -> int:
        """Send a message, by default to the next queue, and return its born time in milliseconds."""
        now_us = wall_us()
        given = {UNIQ_KEY: new_unique_key(now_us), **properties}
        place = self._sent % QUEUES if queue_id is None else queue_id
        ext = send_ext(topic, "users", place, now_us, given, sys_flag=sys_flag)
        self._sent += 1
        await self._client.ok(RequestCode.SEND_MESSAGE, ext, body)
        return now_us // US_PER_MS

    async def delay(self, bodies: list[bytes], delay_ms: int) -> None:
        """Send messages for ``orders`` with this delay."""
        for body in bodies:
            await self.send(body, {RELAY_TOPIC: ORDERS, RELAY_DELAY_MS: str(delay_ms)})

    async def received(self, bodies: list[bytes], topic: str = ORDERS) -> list[WireRecord]:
        """Wait until the topic has messages with all of these bodies."""
        async with asyncio.timeout(HANGING_S):
            while not set(bodies) <= {record.body for record in self.read[topic]}:
                if not await self.look(topic):
                    await asyncio.sleep(_POLL_S)
        return self.read[topic]

    async def look(self, topic: str) -> int:
        """Receive the messages that are available now, and return their number."""
        count = 0
        for queue_id in range(self._queues.get(topic, 1)):
            ext = pull_ext(topic, "readers", queue_id, self._offsets[topic, queue_id])
            answer = await self._client.call(RequestCode.PULL_MESSAGE, ext)
            records = decode_records(answer.body) if answer.code == 0 else []
            self.read[topic] += records
            self._offsets[topic, queue_id] += len(records)
            count += len(records)
        return count


def properties_of(record: WireRecord) -> dict[str, str]:
    """Return the properties as a consumer sees them."""
    return decode_properties(record.properties)


def ids_of(records: list[WireRecord]) -> dict[bytes, set[str]]:
    """Return the relay's message ids by body. Repeated messages share an id."""
    ids: defaultdict[bytes, set[str]] = defaultdict(set)
    for record in records:
        ids[record.body].add(properties_of(record)[RELAY_ID])
    return ids


@asynccontextmanager
async def user_of(host: str, port: int, account: Credentials | None = None) -> AsyncIterator[User]:
    """Connect a user to the broker there, with the topics ``later`` and ``orders``."""
    async with connected(host, port, account) as client:
        user = User(client)
        for topic in (LATER, ORDERS):
            await user.make_topic(topic)
        yield user


TOPICS: Final = RelayTopics(LATER, f"{LATER}-pending", f"{LATER}-refused")


def cluster_of(
    name_server: str, topics: RelayTopics = TOPICS, zone: tzinfo | None = None, **changed: Any
) -> RocketCluster:
    """Create a RocketCluster for the tests' delay topic at ``name_server``."""
    given: dict[str, Any] = {"carry_after_us": DAY_US, "lock_us": LONG_US, "access": ACCESS}
    judge = Judge(400 * DAY_US, topics, zone)
    return RocketCluster(name_server, topics, GROUP, judge, **given | changed)


@asynccontextmanager
async def running_relay(name_server: str, **changed: Any) -> AsyncIterator[Relay[WireRecord]]:
    """Run a relay in this process that serves its partitions, and stop it on exit."""
    stop, ready = asyncio.Event(), asyncio.Event()
    with shelves("memory", None) as open_shelf:
        relay: Relay[WireRecord] = Relay(
            cluster_of(name_server, **changed), open_shelf, lambda *_: ready.set()
        )
        running = asyncio.create_task(relay.run(stop))
        try:
            async with asyncio.timeout(HANGING_S):
                waiting = asyncio.create_task(ready.wait())
                await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if running.done():
                running.result()
            yield relay
        finally:
            stop.set()
            await running


async def forked_relay(name_server: str, *args: str) -> Forked:
    """Run the relay command in its own process."""
    command = ["relay", "rocketmq", "--name-server", name_server, "--topic", LATER, "--group", GROUP, *args]
    return await fork(command, clean_environment())


async def refused_start(name_server: str, *args: str) -> str:
    """Return the error of a relay that fails to start."""
    relay = await forked_relay(name_server, *args)
    assert relay.stderr
    try:
        said = (await relay.stderr.read()).decode()
        assert await relay.wait() == 3, said
    finally:
        relay.kill()
    return said


async def line_of(relay: Forked, part: str) -> str:
    """Wait for a line that contains this text."""
    assert relay.stdout
    seen = []
    async with asyncio.timeout(HANGING_S):
        while line := (await relay.stdout.readline()).decode():
            seen.append(line)
            if part in line:
                return line
    raise AssertionError(f"the relay has ended after {seen}")
