"""The same gRPC load in turn on mocketmq and on RocketMQ 5.3.3's proxy in local mode, whose figures are the
floor.

This process sends the load to both with the same client. Neither syncs each send to the disk, which is
RocketMQ's default.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from mocketmq import Client
from mocketmq.lab.producer import per_second
from mocketmq.remoting.wire.codes import RequestCode
from tests.bench.figures import Figure, quantile
from tests.bench.grpc import GROUP, IN_FLIGHT, send, send_to_receive
from tests.bench.load import TOPIC
from tests.bench.progress import rounds, say
from tests.support.grpc import GrpcClient, grpc_client
from tests.support.process import broker_process
from tests.support.remoting import connected
from tests.upstream.jars import V5, JarsMissingError, class_path
from tests.upstream.process import HEAPS, HOST, running_upstream

_QUEUES: Final = 4
_WARM_S: Final = 3.0
"""Duration in real seconds of unmeasured sends while Java compiles."""


@asynccontextmanager
async def _ours() -> AsyncIterator[tuple[int, int]]:
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        async with (
            broker_process("--data", data, "--durability", "normal") as process,
            Client(process.url) as control,
        ):
            yield process.broker_port, (await control.info())["doors"]["grpc"]["port"]


@asynccontextmanager
async def _theirs() -> AsyncIterator[tuple[int, int]]:
    with TemporaryDirectory(prefix="mocketmq-bench-") as home:
        settings = {"brokerFastFailureEnable": "false"}
        async with running_upstream(Path(home) / "rocketmq", V5, settings, proxy={}) as running:
            yield running.broker_port, running.grpc_port


async def measure(quick: bool) -> list[Figure]:
    """Sends, and time from a send to a waiting receive; nothing without Java and Maven."""
    try:
        await asyncio.to_thread(class_path, V5)
    except JarsMissingError as error:
        say(f"no RocketMQ: {error}")
        return []
    say(f"RocketMQ {V5} with its proxy, with the serial collector; {' '.join(HEAPS['proxy'])}")
    seconds, sends, count = (0.3, 20, 1) if quick else (3.0, 200, 3)
    rates: dict[int, tuple[list[float], list[float]]] = {number: ([], []) for number in IN_FLIGHT}
    took: dict[float, tuple[list[float], list[float]]] = {0.5: ([], []), 0.99: ([], [])}
    for _ in rounds("gRPC beside RocketMQ's proxy", count):
        for side, start in enumerate((_ours, _theirs)):
            async with start() as (broker_port, grpc_port), AsyncExitStack() as stack:
                await _make_topic(broker_port)
                producer = await stack.enter_async_context(grpc_client(grpc_port, "producer@1"))
                consumer = await _consumer(grpc_port, stack)
                await per_second(lambda: send(producer), 64, min(seconds, _WARM_S))  # noqa: B023 # used here
                for number in IN_FLIGHT:
                    rate = await per_second(lambda: send(producer), number, seconds)  # noqa: B023
                    rates[number][side].append(rate)
                while got := await consumer.receive(GROUP, TOPIC):
                    await consumer.ack(*got, group=GROUP, topic=TOPIC)
                took_ms = [await send_to_receive(producer, consumer) for _ in range(sends)]
                for share, both in took.items():
                    both[side].append(quantile(took_ms, share))
    return [
        *(Figure(f"sends over gRPC, {number} in flight", "/s", *both) for number, both in rates.items()),
        *(Figure(f"send to receive: p{share * 100:g}", "ms", *both) for share, both in took.items()),
    ]


async def _make_topic(broker_port: int) -> None:
    ext = {"topic": TOPIC, "defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG"}
    ext |= {"readQueueNums": str(_QUEUES), "writeQueueNums": str(_QUEUES), "topicSysFlag": "0"}
    async with connected(HOST, broker_port) as client:
        await client.ok(
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            ext | {"order": "false", "attributes": "+message.type=NORMAL"},
        )


async def _consumer(grpc_port: int, stack: AsyncExitStack) -> GrpcClient:
    """A consumer that has sent its settings, which RocketMQ requires before it delivers."""
    consumer = await stack.enter_async_context(grpc_client(grpc_port, "consumer@2"))
    telemetry = await stack.enter_async_context(consumer.telemetry())
    await telemetry.consume(GROUP, TOPIC)
    return consumer
