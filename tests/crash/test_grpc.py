"""``kill -9`` while gRPC clients send and receive.

Every acknowledged send is in the topic once and reaches the group. No message arrives early, and none arrives
again after its acknowledgement was answered.
"""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest
from grpclib.exceptions import GRPCError, StreamTerminatedError

from mocketmq import Client, UnreachableError
from mocketmq.clock import US_PER_MS, steady_us
from mocketmq.failpoint import ENVIRONMENT
from mocketmq.grpc_proxy.messages import us_of
from tests.crash.test_transactions import all_in
from tests.support.grpc import GrpcClient, grpc_client
from tests.support.patience import HANGING_S
from tests.support.process import BrokerProcess, StartError, forked_broker

SEED = os.environ.get("CRASH_SEED") or str(SystemRandom().randrange(10**9))
"""The seed of all random choices; a failing test shows it, and the environment can set it."""

TOPIC, URGENT, GROUP = "orders", "urgent", "billing"
PRIORITIES = 4
SETTINGS = ("--clock", "manual", "--topic-queues", "1")
FILE = f"""
[[topics]]
name = "{URGENT}"
type = "priority"
read_queues = {PRIORITIES}
write_queues = {PRIORITIES}
"""
INVISIBLE_S = 12 * 3_600
"""Invisible time on the emulated clock, which is longer than any load."""
OK, MULTIPLE_RESULTS = 20_000, 30_000
PRIORITY = 6
GONE = (GRPCError, StreamTerminatedError, OSError, asyncio.TimeoutError, UnreachableError)


class Load:
    """Producers and consumers that record their requests and the answers.

    With ``has_priorities``, each message has a priority, and none is delayed.
    """

    def __init__(self, random: Random, *, has_priorities: bool = False) -> None:
        self.topic = URGENT if has_priorities else TOPIC
        self.sending: set[str] = set()
        self.sent: set[str] = set()  # confirmed by the broker, as the next set
        self.acked: set[str] = set()
        self.acking: set[str] = set()  # requested
        self.received: set[str] = set()
        self.faults: list[str] = []
        self._random = random
        self._due_ms: dict[str, int] = {}  # the earliest instant, by the emulated clock
        self._now_ms = 0

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
        async with asyncio.TaskGroup() as tasks:
            for act in acts:
                tasks.create_task(_until_gone(act))

    async def _send(self, client: GrpcClient) -> None:
        random, began_us, now_ms = self._random, steady_us(), self._now_ms
        delay_s = None if self.topic == URGENT else random.choice((None, None, 1, 3, 3, 20))
        system: dict[str, Any] = {}
        if self.topic == URGENT:
            system = {"priority": random.randrange(PRIORITIES), "message_type": PRIORITY}
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
        got = await client.receive(GROUP, self.topic, invisible_s=INVISIBLE_S, wait_s=0.05)
        for one in got:
            self._judge(one.system_properties)
        intention = self._random.choice(("ack", "ack", "change", "forget"))
        if got and intention == "ack":
            await self.acknowledge(client, got)
        elif got and intention == "change":
            assert (await client.change(got[0], 1, GROUP, self.topic)).status.code == OK
        return len(got)

    async def acknowledge(self, client: GrpcClient, got: list[Any]) -> None:
        """Ack received messages."""
        self.acking.update(one.system_properties.message_id for one in got)
        answer = await client.ack(*got, group=GROUP, topic=self.topic)
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

    async def _move(self, control: Client) -> None:
        self._now_ms = (await control.advance(self._random.choice(("300ms", "1s", "5s"))))["now_ms"]

    async def finish(self, client: GrpcClient, control: Client) -> None:
        """Make all messages due and visible, and consume them."""
        await control.advance("1d")
        while got := await client.receive(GROUP, self.topic, invisible_s=INVISIBLE_S):
            for one in got:
                self._judge(one.system_properties)
            new = [one.system_properties for one in got if one.system_properties.delivery_attempt == 1]
            assert new == sorted(new, key=lambda system: -system.priority)
            await self.acknowledge(client, got)
        stored = Counter(await all_in(control, self.topic, PRIORITIES if self.topic == URGENT else 1))
        assert not self.faults
        assert max(stored.values(), default=1) == 1
        assert self.sent <= stored.keys() <= self.sending
        assert stored.keys() == self.received
        assert self.acked <= stored.keys() == self.acking


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
OF_PRIORITIES = ("writer.written:40", "receive.settled:2", "writer.committed:60", "receive.taken:10")


@pytest.mark.parametrize("point", [*QUICK, *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW)])
async def test_kill_at_a_point(tmp_path: Path, point: str) -> None:
    print(f"CRASH_SEED={SEED}")  # noqa: T201 - pytest shows it with a failure
    load = Load(Random(f"{SEED} {point}"))
    await run_until_killed(tmp_path, load, point)
    await recover(tmp_path, load)


@pytest.mark.parametrize(
    "point", ["receive.taken:3", *(pytest.param(each, marks=pytest.mark.slow) for each in OF_PRIORITIES)]
)
async def test_kill_at_a_point_among_priorities(tmp_path: Path, point: str) -> None:
    print(f"CRASH_SEED={SEED}")  # noqa: T201
    load = Load(Random(f"{SEED} {point}"), has_priorities=True)
    await run_until_killed(tmp_path, load, point)
    await recover(tmp_path, load)


@pytest.mark.slow
@pytest.mark.parametrize("has_priorities", [False, True])
async def test_kills_at_random_moments(tmp_path: Path, has_priorities: bool) -> None:
    print(f"CRASH_SEED={SEED}")  # noqa: T201
    random = Random(f"{SEED} moments")
    load = Load(random, has_priorities=has_priorities)
    for _ in range(8):
        await run_until_killed(tmp_path, load, after_s=random.uniform(0, 0.6))
    await recover(tmp_path, load)
