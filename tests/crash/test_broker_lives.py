"""Brokers of a cluster end, are promoted and start again under load, until ``kill -9`` ends the process.

A group receives in any order, another one in order.
"""

import os
import signal
from pathlib import Path
from random import Random

import pytest

from mocketmq import Client, UnreachableError
from mocketmq.failpoint import ENVIRONMENT
from tests.crash.load import TOPIC
from tests.crash.survivor import Survivor, Variant
from tests.crash.test_kill import SEED
from tests.support.process import forked_broker

LIVES = int(os.environ.get("CRASH_LIVES", "40"))
"""Number of processes that the slow test kills; a thousand take some minutes."""
LIVES_OF_A_DIRECTORY = 8
MOST_ACTS = 300
"""Maximum number of acts of the clients in a life."""
CLUSTER = Variant("manual", "exact", [0, 1, 5, 60], brokers=2)


@pytest.mark.parametrize("lives", [3, pytest.param(LIVES, marks=pytest.mark.slow, id="many")])
async def test_killed_brokers_lose_and_repeat_nothing_and_keep_the_order(tmp_path: Path, lives: int) -> None:
    print(f"CRASH_SEED={SEED}")  # noqa: T201 - pytest shows it with a failure
    random = Random(f"{SEED} cluster {lives}")
    for first in range(0, lives, LIVES_OF_A_DIRECTORY):
        directory = tmp_path / str(first)
        directory.mkdir()
        survivor = Survivor(directory, CLUSTER)
        for _ in range(first, min(first + LIVES_OF_A_DIRECTORY, lives)):
            await survivor.run_until_killed(random, after_acts=random.randint(1, MOST_ACTS))
        await survivor.recover()


async def test_a_message_held_in_a_move_that_a_kill_ended_is_not_delivered_early(tmp_path: Path) -> None:
    settings = ("--data", str(tmp_path / "data"), "--clock", "manual", "--brokers", "2")
    async with (
        forked_broker(*settings, env={ENVIRONMENT: "clock.fired:1"}) as process,
        Client(process.url) as client,
    ):
        sent = await client.send(TOPIC, "late", delay_level=2, queue_id=0)
        await client.crash_broker("broker-a")
        with pytest.raises(UnreachableError):
            await client.advance("5s")
        assert await process.wait() == -signal.SIGKILL
    async with forked_broker(*settings) as process, Client(process.url) as client:
        assert (await client.clock())["now_ms"] < sent["due_ms"]
        assert not (await client.browse(TOPIC, 0))["messages"]
        await client.advance("5s")
        [found] = (await client.browse(TOPIC, 0))["messages"]
        assert found["store_ms"] >= sent["due_ms"]
