"""Costs by the number of topics: first messages, as many messages over all of them, restarts, memory."""

from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

from mocketmq import Client
from mocketmq.broker.broker import Broker
from mocketmq.broker.sending.sender import MAX_BATCH
from tests.bench.floors import memory_mb
from tests.bench.growth.series import FLAT, Cost
from tests.bench.load import order
from tests.support.brokers import running_broker
from tests.support.process import broker_process

_MORE: Final = 100_000


async def topics(count: int) -> AsyncIterator[Cost]:
    """Create topics by a first message to each, send more to all of them, list them, and start again."""
    with TemporaryDirectory(prefix="mocketmq-bench-") as folder:
        data = Path(folder, "data")
        async with running_broker(data) as broker:
            if count:
                began = perf_counter()
                await _send(broker, count, count)
                yield Cost("first messages to topics", "s", count, perf_counter() - began)
                began = perf_counter()
                await _send(broker, count, _MORE)
                yield Cost(f"{_MORE:,} messages over all topics", "s", count, perf_counter() - began, FLAT)
        began = perf_counter()
        async with broker_process("--data", str(data)) as process, Client(process.url) as client:
            yield Cost("restart with topics", "s", count, perf_counter() - began)
            yield Cost("memory with topics", "MB", count, memory_mb(process.pid))
            began = perf_counter()
            assert len(await client.topics()) >= count
            yield Cost("list of topics", "s", count, perf_counter() - began)


async def _send(broker: Broker, topic_count: int, messages: int) -> None:
    for start in range(0, messages, MAX_BATCH):
        numbers = range(start, min(start + MAX_BATCH, messages))
        await broker.sender.send_batch([order(topic=f"t{number % topic_count}") for number in numbers])
