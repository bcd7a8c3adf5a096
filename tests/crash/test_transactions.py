"""``kill -9`` between two steps of a transaction: no message is lost, repeated, or visible uncommitted."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from random import Random, SystemRandom

import pytest

from mocketmq import BrokerError, Client, UnreachableError
from mocketmq.client.answer import JsonObject
from mocketmq.failpoint import ENVIRONMENT
from mocketmq.message.names import UNDECIDED_TOPIC
from tests.crash.points import OTHER_TIMES, TRANSACTION_TIMES
from tests.support.patience import HANGING_S
from tests.support.process import StartError, forked_broker

SEED = os.environ.get("CRASH_SEED") or str(SystemRandom().randrange(10**9))
"""The seed of all random choices; a failing test shows it, and the environment can set it."""

TOPIC = "orders"
SETTINGS = (
    *("--clock", "manual", "--durability", "normal", "--topic-queues", "1"),
    *("--levels", "1s", "--transaction-check-max", "2"),
)
DELAYS: list[JsonObject] = [{}, {"delay_level": 1}, {"delay_ms": 3_000}]
WORKERS = 6


class Producers:
    """Concurrent producers that prepare half messages, decide most of them, and record the answers."""

    def __init__(self, random: Random) -> None:
        self.prepared: set[str] = set()  # answered decisions
        self.committed: set[str] = set()
        self.rolled_back: set[str] = set()
        self.refused: set[str] = set()  # abandoned before a decision
        self.to_commit: set[str] = set()  # requested decisions
        self.to_roll_back: set[str] = set()
        self._random = random

    async def run(self, client: Client) -> None:
        """Produce until the broker is killed."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WORKERS):
                tasks.create_task(self._produce(client))
            tasks.create_task(self._move(client))

    async def _produce(self, client: Client) -> None:
        random = self._random
        try:
            while True:
                message_id = f"{random.getrandbits(64):016x}"
                await client.prepare(
                    TOPIC, "half", group="makers", message_id=message_id, **random.choice(DELAYS)
                )
                self.prepared.add(message_id)
                choice = random.random()
                if choice < 0.5:
                    self.to_commit.add(message_id)
                    await self._decide(client.commit(message_id), message_id, self.committed)
                elif choice < 0.7:
                    self.to_roll_back.add(message_id)
                    await self._decide(client.rollback(message_id), message_id, self.rolled_back)
        except UnreachableError:
            pass

    async def _decide(self, call: Awaitable[JsonObject], message_id: str, told: set[str]) -> None:
        try:
            await call
        except BrokerError as error:
            assert error.status in (404, 409), error
            self.refused.add(message_id)
        else:
            told.add(message_id)

    async def _move(self, client: Client) -> None:
        """Move the clock: undecided half messages are checked back, and abandoned at the third step."""
        try:
            while True:
                await client.advance("40s")
        except UnreachableError:
            pass


async def all_open(client: Client) -> set[str]:
    """Return the half messages without a decision."""
    found: set[str] = set()
    page: JsonObject = {"next_after": -1}
    while page["next_after"] is not None:
        page = await client.transactions(after=page["next_after"], max_messages=1_000)
        found |= {half["message_id"] for half in page["messages"]}
    return found


async def all_in(client: Client, topic: str, queues: int = 1) -> list[str]:
    """Return the visible messages of the topic's queues."""
    found: list[str] = []
    for queue_id in range(queues):
        offset = 0
        try:
            while page := (await client.browse(topic, queue_id, offset=offset, max_messages=256))["messages"]:
                found += [message["message_id"] for message in page]
                offset += len(page)
        except BrokerError as error:
            assert error.status == 404, error
    return found


async def judge(client: Client, producers: Producers) -> None:
    """Check the store after a kill, and the outcomes of its half messages."""
    waiting, given_up = await all_open(client), Counter(await all_in(client, UNDECIDED_TOPIC))
    seen = Counter(await all_in(client, TOPIC))
    wanted = producers.to_commit - producers.refused
    assert seen.keys() <= wanted
    assert max((seen + given_up).values(), default=1) == 1
    assert not waiting & (producers.committed | producers.rolled_back)
    assert not given_up.keys() & (waiting | producers.committed | producers.rolled_back)
    undecided = producers.prepared - producers.to_commit - producers.to_roll_back
    assert undecided <= waiting | given_up.keys()
    for message_id in sorted(waiting & wanted):  # a producer answers a check-back with its earlier decision
        await client.commit(message_id)
    await client.advance("1h")
    assert await all_open(client) == set()
    seen = Counter(await all_in(client, TOPIC))
    assert max(seen.values(), default=1) == 1
    assert producers.committed | (waiting & wanted) <= seen.keys() <= wanted
    given_up = Counter(await all_in(client, UNDECIDED_TOPIC))
    assert max(given_up.values(), default=1) == 1
    assert not given_up.keys() & seen.keys()
    assert producers.prepared <= given_up.keys() | seen.keys() | producers.to_roll_back


async def run_until_killed(data: Path, producers: Producers, failpoint: str) -> None:
    """Let producers run until the broker dies at a failpoint, which may be during its start."""
    environment = {ENVIRONMENT: failpoint}
    try:
        async with forked_broker("--data", str(data), *SETTINGS, env=environment) as process:
            async with Client(process.url) as client, asyncio.timeout(HANGING_S):
                await producers.run(client)
            assert await process.wait() == -signal.SIGKILL, process.stderr
    except StartError as error:
        assert error.returncode == -signal.SIGKILL, error.stderr


TIMES = TRANSACTION_TIMES | OTHER_TIMES
CASES = [f"{point}:{count}" for point, counts in TIMES.items() for count in counts]
QUICK = [f"{point}:{counts[1]}" for point, counts in TRANSACTION_TIMES.items()]


@pytest.mark.parametrize(
    "failpoint",
    [*QUICK, *(pytest.param(each, marks=pytest.mark.slow) for each in CASES if each not in QUICK)],
)
async def test_kill_at_a_point(tmp_path: Path, failpoint: str) -> None:
    print(f"CRASH_SEED={SEED}")  # noqa: T201 - pytest shows it with a failure
    producers = Producers(Random(f"{SEED} {failpoint}"))
    await run_until_killed(tmp_path, producers, failpoint)
    async with forked_broker("--data", str(tmp_path), *SETTINGS) as process, Client(process.url) as client:
        await judge(client, producers)


@pytest.mark.slow
async def test_kill_at_every_point_one_after_the_other(tmp_path: Path) -> None:
    print(f"CRASH_SEED={SEED}")  # noqa: T201 - as above
    random = Random(SEED)
    producers = Producers(random)
    for failpoint in random.sample(CASES, len(CASES) // 2):
        print(f"killed at {failpoint}")  # noqa: T201 - as above
        await run_until_killed(tmp_path, producers, failpoint)
    async with forked_broker("--data", str(tmp_path), *SETTINGS) as process, Client(process.url) as client:
        await judge(client, producers)
