"""``kill -9`` while gRPC clients send and receive.

Every acknowledged send is in the topic once and reaches the group. No message arrives early, and none arrives
again after its acknowledgement was answered. Those of the highest priority come first, and those of a lite
topic in order.
"""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest
from grpclib.exceptions import GRPCError, StreamTerminatedError

from mocketmq import Client, UnreachableError
from mocketmq.clock import US_PER_MS, steady_us
from mocketmq.failpoint import ENVIRONMENT
from mocketmq.grpc_proxy.clients import LITE_PUSH_CONSUMER
from mocketmq.grpc_proxy.messages import us_of
from tests.crash.test_transactions import all_in
from tests.doors.grpc.lite_topics import REPLACE
from tests.support.grpc import GrpcClient, grpc_client
from tests.support.patience import HANGING_S
from tests.support.process import BrokerProcess, StartError, forked_broker

SEED = os.environ.get("CRASH_SEED") or str(SystemRandom().randrange(10**9))
"""The seed of all random choices; a failing test shows it, and the environment can set it."""

TOPIC, URGENT, CHATS = "orders", "urgent", "chats"
GROUPS = {TOPIC: "billing", URGENT: "billing", CHATS: "agents"}
PRIORITIES = 4
LITES = [f"chat-{number}" for number in range(12)]
SETTINGS = ("--clock", "manual", "--topic-queues", "1")
FILE = f"""
[[topics]]
name = "{URGENT}"
type = "priority"
read_queues = {PRIORITIES}
write_queues = {PRIORITIES}

[[topics]]
name = "{CHATS}"
type = "lite"

[[groups]]
name = "{GROUPS[CHATS]}"
lite_parent = "{CHATS}"
"""
INVISIBLE_S = 12 * 3_600
"""Invisible time on the emulated clock, which is longer than any load."""
OK, MULTIPLE_RESULTS = 20_000, 30_000
PRIORITY = 6
GONE = (GRPCError, StreamTerminatedError, OSError, asyncio.TimeoutError, UnreachableError)


class Load:
    """Producers and consumers of a topic that record their requests and the answers.

    Messages have delays in ``TOPIC``, priorities in ``URGENT``, and lite topics in ``CHATS``.
    """

    def __init__(self, random: Random, topic: str) -> None:
        self.topic, self.group = topic, GROUPS[topic]
        self.sending: set[str] = set()
        self.sent: set[str] = set()  # confirmed by the broker, as the next set
        self.acked: set[str] = set()
        self.acking: set[str] = set()  # requested
        self.received: set[str] = set()
        self.faults: list[str] = []
        self._random = random
        self._due_ms: dict[str, int] = {}  # the earliest instant, by the emulated clock
        self._now_ms = 0
        self._last: dict[str, int] = {}  # the highest offset received, by lite topic

    async def run(self, client: GrpcClient, control: Client) -> None:
        """Run until the broker dies."""
        try:
            self._now_ms = (await control.clock())["now_ms"]
        except UnreachableError:
            return
        acts: tuple[Callable[[], Awaitable[object]], ...] = (
            *[lambda: self._send(client)] * 4,
            *[lambda: self.consume(client)] * 2,
            lambda: self._move(control),
        )
        with suppress(*GONE):
            async with self._subscribed(client), asyncio.TaskGroup() as tasks:
                for act in acts:
                    tasks.create_task(_until_gone(act))

    @asynccontextmanager
    async def _subscribed(self, client: GrpcClient) -> AsyncIterator[None]:
        """Keep the client subscribed to all lite topics, if there are any."""
        if self.topic != CHATS:
            yield
            return
        where: dict[str, Any] = {"topic": {"name": CHATS}, "group": {"name": self.group}}
        async with client.telemetry() as telemetry:
            await telemetry.settings(client_type=LITE_PUSH_CONSUMER, subscription={"group": where["group"]})
            answer = await client.call("SyncLiteSubscription", action=REPLACE, lite_topic_set=LITES, **where)
            assert answer.status.code == OK, answer
            yield

    async def _send(self, client: GrpcClient) -> None:
        random, began_us, now_ms = self._random, steady_us(), self._now_ms
        delay_s = random.choice((None, None, 1, 3, 3, 20)) if self.topic == TOPIC else None
        system: dict[str, Any] = {}
        if self.topic == URGENT:
            system = {"priority": random.randrange(PRIORITIES), "message_type": PRIORITY}
        elif self.topic == CHATS:
            system = {"lite_topic": random.choice(LITES)}
        elif delay_s is None and random.random() < 0.5:
            system = {"message_group": "g"}
        message = client.message("b" * random.randint(1, 2_000), self.topic, delay_s, **system)
        message_id = f"{random.getrandbits(64):016X}"
        message.system_properties.message_id = message_id
        self.sending.add(message_id)
        self._due_ms[message_id] = now_ms
        answer = await client.send(message)
        assert answer.status.code == OK, answer
        if delay_s is not None:  # the wall clocks have advanced since
            took_ms = (steady_us() - began_us) // US_PER_MS
            self._due_ms[message_id] = now_ms + delay_s * 1_000 - took_ms - 1
        self.sent.add(message_id)

    async def consume(self, client: GrpcClient) -> int:
        """Receive, settle each message in one of three ways, and return the number of messages."""
        limit = self._random.randint(1, 3) if self.topic == CHATS else 32  # forgotten ones block lite topics
        got = await self._receive(client, wait_s=0.05, batch_size=limit)
        intention = self._random.choice(("ack", "ack", "change", "forget"))
        if got and intention == "ack":
            await self.acknowledge(client, got)
        elif got and intention == "change":
            assert (await client.change(got[0], 1, self.group, self.topic)).status.code == OK
        return len(got)

    async def _receive(self, client: GrpcClient, **more: Any) -> list[Any]:
        got = await client.receive(self.group, self.topic, invisible_s=INVISIBLE_S, **more)
        for one in got:
            self._judge(one.system_properties)
        return got

    async def acknowledge(self, client: GrpcClient, got: list[Any]) -> None:
        """Ack received messages."""
        self.acking.update(one.system_properties.message_id for one in got)
        answer = await client.ack(*got, group=self.group, topic=self.topic)
        assert answer.status.code in (OK, MULTIPLE_RESULTS), answer
        for entry in answer.entries:
            if entry.status.code == OK:
                self.acked.add(entry.message_id)

    def _judge(self, system: Any) -> None:
        message_id, store_ms = system.message_id, us_of(system.store_timestamp) // US_PER_MS
        if message_id in self.acked:
            self.faults.append(f"{message_id} came again after it was acknowledged")
        if store_ms < self._due_ms[message_id]:
            self.faults.append(f"{message_id} came {self._due_ms[message_id] - store_ms} ms early")
        self.received.add(message_id)
        if self.topic == CHATS:
            self._judge_order(system)

    def _judge_order(self, system: Any) -> None:
        last, offset = self._last.get(system.lite_topic, -1), system.queue_offset
        if system.delivery_attempt == 1 and offset <= last:
            self.faults.append(f"offset {offset} of {system.lite_topic} came after offset {last}")
        self._last[system.lite_topic] = max(last, offset)

    async def _move(self, control: Client) -> None:
        self._now_ms = (await control.advance(self._random.choice(("300ms", "1s", "5s"))))["now_ms"]

    async def finish(self, client: GrpcClient, control: Client) -> None:
        """Make all messages due and visible, and consume them."""
        await control.advance("1d")
        async with self._subscribed(client):
            while got := await self._receive(client):
                new = [one.system_properties for one in got if one.system_properties.delivery_attempt == 1]
                assert new == sorted(new, key=lambda system: -system.priority)
                await self.acknowledge(client, got)
        stored = Counter(await self._stored(control))
        assert not self.faults
        assert max(stored.values(), default=1) == 1
        assert self.sent <= stored.keys() <= self.sending
        assert stored.keys() == self.received
        assert self.acked <= stored.keys() == self.acking

    async def _stored(self, control: Client) -> list[str]:
        """Return the ids of all messages of the topic."""
        if self.topic != CHATS:
            return await all_in(control, self.topic, PRIORITIES if self.topic == URGENT else 1)
        found: list[str] = []
        for lite in await control.lite_topics(CHATS):
            offset = 0
            while offset < lite["max_offset"]:
                page = await control.browse(CHATS, lite_topic=lite["name"], offset=offset, max_messages=256)
                found += [message["message_id"] for message in page["messages"]]
                offset = page["next_offset"]
        return found


async def _until_gone(act: Callable[[], Awaitable[Any]]) -> None:
    try:
        while True:
            await act()
    except GONE:
        pass


@asynccontextmanager
async def broker(data: Path, failpoint: str = "") -> AsyncIterator[tuple[BrokerProcess, GrpcClient, Client]]:
    """Run a broker on the store that may die, a gRPC client and a JSON API client. Raises StartError."""
    settings = data / "mocketmq.toml"
    settings.write_text(FILE)
    async with (
        forked_broker(
            *("--config", str(settings), "--data", str(data / "store"), *SETTINGS),
            env={ENVIRONMENT: failpoint},
        ) as process,
        Client(process.url) as control,
    ):
        port = (await control.info())["doors"]["grpc"]["port"]
        async with grpc_client(port) as client:
            yield process, client, control


async def run_until_killed(data: Path, load: Load, failpoint: str = "", after_s: float | None = None) -> None:
    """Run the load until the broker dies at the point, or is killed some seconds later."""
    try:
        async with asyncio.timeout(HANGING_S), broker(data, failpoint) as (process, client, control):
            if after_s is not None:
                asyncio.get_running_loop().call_later(after_s, process.kill)
            await load.run(client, control)
            assert await process.wait() == -signal.SIGKILL, process.stderr
    except StartError as error:
        assert error.returncode == -signal.SIGKILL, error.stderr


async def recover(data: Path, load: Load) -> None:
    """Start a broker without faults on the data of the killed brokers."""
    async with broker(data) as (_, client, control):
        await load.finish(client, control)


QUICK = ("writer.written:40", "files.delivered:2", "receive.taken:3", "receive.settled:2")
SLOW = (
    *("writer.formed:50", "writer.writing:60", "writer.committed:60", "files.picked:3", "clock.fired:4"),
    *("files.saved:9", "files.removed:4", "receive.taken:10", "receive.settled:9"),
)
FOR_OTHER_TOPICS = ("writer.written:40", "receive.settled:2", "writer.committed:60", "receive.taken:10")


@pytest.mark.parametrize("point", [*QUICK, *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW)])
async def test_kill_at_a_point(tmp_path: Path, point: str) -> None:
    print(f"CRASH_SEED={SEED}")  # noqa: T201 - pytest shows it with a failure
    load = Load(Random(f"{SEED} {point}"), TOPIC)
    await run_until_killed(tmp_path, load, point)
    await recover(tmp_path, load)


@pytest.mark.parametrize("topic", [URGENT, CHATS])
@pytest.mark.parametrize(
    "point", ["receive.taken:3", *(pytest.param(each, marks=pytest.mark.slow) for each in FOR_OTHER_TOPICS)]
)
async def test_kill_at_a_point_among_priorities_and_lite_topics(
    tmp_path: Path, point: str, topic: str
) -> None:
    print(f"CRASH_SEED={SEED}")  # noqa: T201
    load = Load(Random(f"{SEED} {point}"), topic)
    await run_until_killed(tmp_path, load, point)
    await recover(tmp_path, load)


@pytest.mark.slow
@pytest.mark.parametrize("topic", [TOPIC, URGENT, CHATS])
async def test_kills_at_random_moments(tmp_path: Path, topic: str) -> None:
    print(f"CRASH_SEED={SEED}")  # noqa: T201
    random = Random(f"{SEED} moments")
    load = Load(random, topic)
    for _ in range(8):
        await run_until_killed(tmp_path, load, after_s=random.uniform(0, 0.6))
    await recover(tmp_path, load)
