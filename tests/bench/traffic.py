"""Real traffic on an unmoved clock, in two profiles at once, for the comparison in docs/lateness.md.

``python -m tests.bench.traffic --minutes 30 DIR`` leaves a data directory per profile in DIR, to be reported
by ``mocketmq report DIR/exact --compare DIR/rocketmq4``. Both brokers run side by side, so that other
load of the machine disturbs both.
"""

import argparse
import asyncio
import itertools
import random
from pathlib import Path
from time import perf_counter

import uvloop

from mocketmq import Client, MessageOptions
from mocketmq.client.answer import JsonObject
from tests.bench.load import BODY
from tests.bench.progress import say
from tests.support.process import broker_process

PROFILES = ("exact", "rocketmq4")
RATE = 200
"""Messages a second, for each broker."""

LEVELS = range(1, 9)
"""1 s to 4 min. A ninth of the messages has any other delay of that length, by second directories."""

DRAIN_S = 245
_TOPIC = "orders"
_GROUP = "shop"
_RECEIVERS = 2


async def main() -> None:
    """Send for ``minutes``, then wait for all deliveries."""
    options = _options()
    async with asyncio.TaskGroup() as profiles:
        for profile in PROFILES:
            profiles.create_task(_run(profile, options.directory / profile, options.minutes * 60))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.traffic", description=__doc__)
    parser.add_argument("directory", type=Path, metavar="DIR", help="where both data directories go")
    parser.add_argument("--minutes", type=float, default=30, help="how long to send (default 30)")
    return parser.parse_args()


async def _run(profile: str, data: Path, seconds: float) -> None:
    arguments = ("--data", str(data), "--profile", profile)
    async with broker_process(*arguments) as broker, Client(broker.url) as client:
        count = int(seconds * RATE)
        missing = count
        done = asyncio.Event()

        async def receive() -> None:
            nonlocal missing
            while missing:
                messages = await client.receive(_TOPIC, group=_GROUP, max_messages=32, wait="1s")
                if messages:
                    await client.acknowledge(_GROUP, messages)
                    missing -= len(messages)
            done.set()

        await client.put_topic(_TOPIC)
        async with asyncio.TaskGroup() as receiving:
            tasks = [receiving.create_task(receive()) for _ in range(_RECEIVERS)]
            await _send(client, profile, count)
            say(f"{profile}: all sent, {missing:,} to come")
            try:
                async with asyncio.timeout(DRAIN_S):
                    await done.wait()
            except TimeoutError:
                say(f"{profile}: {missing:,} never came")
                for task in tasks:
                    task.cancel()


async def _send(client: Client, profile: str, count: int) -> None:
    """Start sends at a steady pace, without waiting for earlier ones."""
    dice = random.Random(count)
    started = perf_counter()
    sent = 0
    async with asyncio.TaskGroup() as sending:
        for number, kind in enumerate(itertools.islice(itertools.cycle([*LEVELS, 0]), count)):
            await asyncio.sleep(max(started + number / RATE - perf_counter(), 0))
            options: MessageOptions = (
                {"delay_level": kind} if kind else {"delay_ms": dice.randrange(1_000, 240_000)}
            )
            sending.create_task(_one(client, options))
            sent += 1
            if sent % (60 * RATE) == 0:
                say(f"{profile}: {sent:,} of {count:,} sent")


async def _one(client: Client, options: MessageOptions) -> JsonObject:
    return await client.send(_TOPIC, BODY, **options)


if __name__ == "__main__":
    uvloop.run(main())
