"""Remoting over the wire to a broker in its own process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

import psutil

from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.frame import encode
from tests.bench.figures import Figure, at_least, quantile
from tests.bench.floors import memory_mb, server
from tests.bench.load import TICK_S
from tests.bench.progress import rounds, say
from tests.bench.remoting_client import (
    Connection,
    acknowledged,
    check,
    connect,
    number_in,
    pull_frame,
    send_frame,
    sends_per_second,
)
from tests.support.process import BrokerProcess, broker_process

LOADS = tuple((connections, in_flight) for connections in (1, 8) for in_flight in (1, 64, 256))
AIMS = {64: at_least(0.4, of_floor=True)}
QUEUES = 4
IDLE = 1_000

Runs = dict[str, list[float]]


class _Target(NamedTuple):
    """A broker or the floor, and its address."""

    host: str
    port: int


@asynccontextmanager
async def _broker() -> AsyncIterator[tuple[BrokerProcess, _Target]]:
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        async with broker_process("--data", data) as process:
            yield process, _Target("127.0.0.1", process.broker_port)


@asynccontextmanager
async def _floor() -> AsyncIterator[_Target]:
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        async with server("remoting_floor", str(Path(data) / "floor.log")) as port:
            yield _Target("127.0.0.1", int(port))


async def sends(quick: bool) -> list[Figure]:
    """Sends a second, and the same frames parsed and appended to a file with one fdatasync per batch."""
    seconds, count = (0.2, 1) if quick else (1.0, 5)
    measured: dict[tuple[int, int], list[float]] = {load: [] for load in LOADS}
    floors: dict[tuple[int, int], list[float]] = {load: [] for load in LOADS}
    for _ in rounds("sends over remoting", count):
        async with _broker() as (_, target):
            await _load(target, measured, seconds)
        async with _floor() as target:
            await _load(target, floors, seconds)
    return [
        Figure(
            f"{in_flight} in flight over {connections} connection{'s' * (connections > 1)}",
            "/s",
            measured[connections, in_flight],
            floors[connections, in_flight],
            AIMS.get(in_flight),
        )
        for connections, in_flight in LOADS
        if connections <= in_flight
    ]


async def _load(target: _Target, rates: dict[tuple[int, int], list[float]], seconds: float) -> None:
    await sends_per_second(*target, 8, 8, seconds / 4)  # first requests cost more
    for connections, in_flight in LOADS:
        if connections <= in_flight:
            rates[connections, in_flight].append(
                await sends_per_second(*target, connections, in_flight, seconds)
            )


async def pulls(quick: bool) -> list[Figure]:
    """Messages pulled a second, 32 at a time; the floor always answers the same 32."""
    seconds, count = (0.3, 1) if quick else (2.0, 3)
    pulled: list[float] = []
    floors: list[float] = []
    for _ in rounds("pulls over remoting", count):
        async with _broker() as (_, target):
            await sends_per_second(*target, 8, 256, seconds)
            pulled.append(await _pull_all(target))
        async with _floor() as target:
            floors.append(await _pull_all(target))
    return [Figure("messages a second, 4 pulls in flight", "/s", pulled, floors)]


async def _pull_all(target: _Target, most: int = 100_000) -> float:
    """Pull every queue to its end, concurrently."""
    messages = ended = 0

    def answered(queue_id: int, head: bytes, body: bytes) -> bytes | None:
        nonlocal messages, ended
        if check(head, (0, 19)) == 0 and messages < most:
            messages += body.count(b"order-20240517")
            return pull_frame(queue_id, queue_id, number_in(head, b"nextBeginOffset"))
        ended += 1
        if ended == QUEUES:
            connection.end()
        return None

    connection = await connect(*target, answered)
    started = perf_counter()
    connection.write(b"".join(pull_frame(queue_id, queue_id, 0) for queue_id in range(QUEUES)))
    await connection.ended
    connection.close()
    return messages / (perf_counter() - started)


async def latency(quick: bool) -> list[Figure]:
    """Time from writing a send until a held pull returns the message."""
    sends, count = (20, 1) if quick else (300, 3)
    pushed: dict[str, list[float]] = {"p50": [], "p99": []}
    floors: dict[str, list[float]] = {"p50": [], "p99": []}
    for _ in rounds("send to push", count):
        async with _broker() as (_, target):
            _note(pushed, await _pushes(target, sends))
        async with _floor() as target:
            _note(floors, await _round_trips(target, sends))
    return [
        Figure(f"send to push: {name} (floor: a send's round trip)", "ms", pushed[name], floors[name])
        for name in pushed
    ]


def _note(runs: Runs, took_ms: list[float]) -> None:
    runs["p50"].append(quantile(took_ms, 0.5))
    runs["p99"].append(quantile(took_ms, 0.99))


async def _round_trips(target: _Target, count: int) -> list[float]:
    took_ms: list[float] = []
    connection = await connect(*target, acknowledged)
    for number in range(count):
        started = perf_counter()
        await connection.ask(send_frame(number))
        took_ms.append((perf_counter() - started) * 1e3)
    connection.close()
    return took_ms


async def _pushes(target: _Target, count: int) -> list[float]:
    took_ms: list[float] = []
    arrived, held = asyncio.Event(), 0

    def pulled(_opaque: int, head: bytes, _body: bytes) -> bytes | None:
        nonlocal held
        if check(head, (0, 19, 20)) == 0:
            arrived.set()
        held += 1
        return pull_frame(held, 0, number_in(head, b"nextBeginOffset"), wait_ms=15_000)

    producer = await connect(*target, acknowledged)
    await producer.ask(send_frame(0))  # creates the topic
    consumer = await connect(*target, pulled)
    consumer.write(pull_frame(0, 0, 0, wait_ms=15_000))
    await arrived.wait()
    for number in range(1, count + 1):
        await asyncio.sleep(5 * TICK_S)  # by then the next pull waits
        arrived.clear()
        started = perf_counter()
        producer.write(send_frame(number))
        await arrived.wait()
        took_ms.append((perf_counter() - started) * 1e3)
    producer.close()
    consumer.close()
    return took_ms


async def idle(quick: bool) -> list[Figure]:
    """Memory of idle connections that have sent one heartbeat."""
    number, seconds = (100, 0.5) if quick else (IDLE, 10.0)
    memory: list[float] = []
    cpu: list[float] = []
    say(f"{number} idle connections")
    async with _broker() as (process, target):
        before_mb = memory_mb(process.pid)
        connections = [await _heartbeat(target, n) for n in range(number)]
        memory.append((memory_mb(process.pid) - before_mb) * 1_000 / number)
        watched = psutil.Process(process.pid)
        used_s = sum(watched.cpu_times()[:2])
        await asyncio.sleep(seconds)
        cpu.append((sum(watched.cpu_times()[:2]) - used_s) / seconds * 100 * 1_000 / number)
        for connection in connections:
            connection.close()
    return [
        Figure("1,000 idle connections: memory", "MB", memory),
        Figure("1,000 idle connections: CPU of one core", "%", cpu),
    ]


async def _heartbeat(target: _Target, number: int) -> Connection:
    connection = await connect(*target, acknowledged)
    body = (
        b'{"clientID":"127.0.0.1@%d","producerDataSet":[{"groupName":"bench"}],"consumerDataSet":[]}' % number
    )
    await connection.ask(encode(Command(code=RequestCode.HEART_BEAT, opaque=number, body=body)))
    return connection
