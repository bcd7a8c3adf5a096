"""gRPC over the wire to a broker in its own process. Client and floor both use grpclib."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import psutil

from mocketmq import Client
from mocketmq.lab.producer import per_second
from tests.bench.figures import Figure, quantile
from tests.bench.floors import memory_mb, server
from tests.bench.load import BODY, TOPIC
from tests.bench.progress import rounds, say
from tests.support.grpc import GrpcClient, grpc_client
from tests.support.process import BrokerProcess, broker_process

IN_FLIGHT = (1, 64, 256)
IDLE = 1_000
GROUP = "billing"


@asynccontextmanager
async def _broker() -> AsyncIterator[tuple[BrokerProcess, int]]:
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        async with broker_process("--data", data) as process, Client(process.url) as control:
            yield process, (await control.info())["doors"]["grpc"]["port"]


async def sends(quick: bool) -> list[Figure]:
    """Measure unary sends a second over one connection; the floor is an empty handler."""
    seconds, count = (0.3, 1) if quick else (2.0, 5)
    measured: dict[int, list[float]] = {n: [] for n in IN_FLIGHT}
    floors: dict[int, list[float]] = {n: [] for n in IN_FLIGHT}
    for _ in rounds("sends over gRPC", count):
        async with _broker() as (_, port):
            await _load(port, measured, seconds)
        async with server("grpc_floor") as port:
            await _load(int(port), floors, seconds)
    return [Figure(f"{n} in flight", "/s", measured[n], floors[n]) for n in IN_FLIGHT]


async def _load(port: int, rates: Mapping[int, list[float]], seconds: float) -> None:
    async with grpc_client(port) as client:
        await per_second(lambda: send(client), 8, seconds / 4)  # first requests cost more
        for n in IN_FLIGHT:
            rates[n].append(await per_second(lambda: send(client), n, seconds))


async def send(client: GrpcClient) -> None:
    """Send a message; the send must succeed."""
    message = client.message(BODY.decode(), TOPIC, tag="created", keys=["order-1"])
    answer = await client.send(message)
    assert answer.status.code == 20_000, answer


async def latency(quick: bool) -> list[Figure]:
    """Measure the time from the start of a send until a waiting receive returns the message."""
    sends, count = (20, 1) if quick else (300, 3)
    took: dict[str, list[float]] = {"p50": [], "p99": []}
    floors: dict[str, list[float]] = {"p50": [], "p99": []}
    for _ in rounds("send to receive over gRPC", count):
        async with _broker() as (_, port), grpc_client(port) as client, grpc_client(port, "c@2") as consumer:
            _note(took, [await send_to_receive(client, consumer) for _ in range(sends)])
        async with server("grpc_floor") as port_text, grpc_client(int(port_text)) as client:
            _note(floors, [await _round_trip(client) for _ in range(sends)])
    return [
        Figure(f"send to receive: {name} (floor: a send's round trip)", "ms", took[name], floors[name])
        for name in took
    ]


def _note(figures: Mapping[str, list[float]], took_ms: list[float]) -> None:
    for name, run in figures.items():
        run.append(quantile(took_ms, int(name[1:]) / 100))


async def send_to_receive(client: GrpcClient, consumer: GrpcClient) -> float:
    """Return the milliseconds from the start of a send to the end of a waiting receive."""
    receiving = asyncio.create_task(consumer.receive(GROUP, TOPIC, wait_s=10))
    await asyncio.sleep(0.005)  # until the receive waits
    began = perf_counter()
    await send(client)
    got: list[Any] = await receiving
    took_ms = (perf_counter() - began) * 1e3
    await consumer.ack(*got, group=GROUP, topic=TOPIC)
    return took_ms


async def _round_trip(client: GrpcClient) -> float:
    began = perf_counter()
    await send(client)
    return (perf_counter() - began) * 1e3


async def idle(quick: bool) -> list[Figure]:
    """Measure memory of idle clients that have sent their settings on a Telemetry stream."""
    number, seconds = (100, 0.5) if quick else (IDLE, 10.0)
    memory: list[float] = []
    cpu: list[float] = []
    say(f"{number} idle gRPC clients")
    async with _broker() as (process, port), AsyncExitStack() as stack:
        first = await stack.enter_async_context(grpc_client(port, "first@0"))
        await send(first)  # imports the libraries
        before_mb = memory_mb(process.pid)
        for n in range(number):
            client = await stack.enter_async_context(grpc_client(port, f"idle@{n}"))
            telemetry = await stack.enter_async_context(client.telemetry())
            await telemetry.produce(TOPIC)
        memory.append((memory_mb(process.pid) - before_mb) * 1_000 / number)
        watched = psutil.Process(process.pid)
        used_s = sum(watched.cpu_times()[:2])
        await asyncio.sleep(seconds)
        cpu.append((sum(watched.cpu_times()[:2]) - used_s) / seconds * 100 * 1_000 / number)
    return [
        Figure("1,000 idle clients: memory", "MB", memory),
        Figure("1,000 idle clients: CPU of one core", "%", cpu),
    ]
