"""The same load on mocketmq and on a real RocketMQ, one after the other in the same run: its figures are the
floor.

Both get it from this process over remoting. RocketMQ has its own settings but for its heaps and one more: it
does not turn away sends that wait for 200 ms (``brokerFastFailureEnable``).
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final, NamedTuple

from mocketmq.clock import US_PER_MS, wall_us
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.record import decode_records
from tests.bench.figures import Aim, Figure, at_least, quantile
from tests.bench.floors import memory_mb
from tests.bench.load import TICK_S
from tests.bench.progress import rounds, say
from tests.bench.remoting_client import check, connect, pull_frame, send_frame, sends_per_second
from tests.support.process import broker_process
from tests.support.remoting import connected
from tests.upstream.jars import V4, JarsMissingError, class_path
from tests.upstream.process import HEAPS, HOST, ready, running_upstream

LOADS: Final = ((1, 1), (8, 64), (8, 256))
"""Connections, and sends in flight."""
PER_SECOND: Final = 200
LEVELS: Final = ("1s", "5s", "10s", "30s")
HERD: Final = 20_000
HERD_DELAY: Final = "10s"
QUEUES: Final = 4
IDLE_S: Final = 2.0

_TENTH: Final = Aim(0.1, is_most=True, is_of_floor=True)
_NO_FEWER: Final = at_least(1.0, of_floor=True)
_MESSAGE_ID: Final = re.compile(rb'"msgId":"([0-9A-F]{32})"')
_NEXT: Final = re.compile(rb'"nextBeginOffset":"(\d+)"')
_LOOK_UPS: Final = 64


Both = tuple[list[float], list[float]]
"""Runs of mocketmq, and of RocketMQ."""


class _Broker(NamedTuple):
    """One of the two, running."""

    port: int
    pids: tuple[int, ...]


@asynccontextmanager
async def _ours(levels: str = "1s", *, is_synced: bool = True) -> AsyncIterator[_Broker]:
    durability = "full" if is_synced else "normal"
    with TemporaryDirectory(prefix="mocketmq-bench-") as data:
        options = ("--levels", levels, "--durability", durability, "--topic-queues", str(QUEUES))
        async with broker_process("--data", data, *options) as process:
            await ready(process.name_server[1], process.broker_port)
            yield _Broker(process.broker_port, (process.pid,))


@asynccontextmanager
async def _theirs(levels: str = "1s", *, is_synced: bool = True) -> AsyncIterator[_Broker]:
    with TemporaryDirectory(prefix="mocketmq-bench-") as home:
        settings = {
            "messageDelayLevel": levels,
            "flushDiskType": "SYNC_FLUSH" if is_synced else "ASYNC_FLUSH",
            "brokerFastFailureEnable": "false",
        }
        async with running_upstream(Path(home) / "rocketmq", V4, settings) as running:
            yield _Broker(running.broker_port, running.pids)


_BOTH: Final = (_ours, _theirs)


async def measure(quick: bool) -> list[Figure]:
    """Everything that the two are compared by; nothing without Java and Maven."""
    try:
        await asyncio.to_thread(class_path, V4)
    except JarsMissingError as error:
        say(f"no RocketMQ: {error}")
        return []
    heaps = ", ".join(f"{name} {' '.join(flags)}" for name, flags in HEAPS.items())
    say(f"RocketMQ {V4}, with the serial collector; {heaps}")
    return [
        *await _starts(1 if quick else 3),
        *await _sends(*((0.3, 1) if quick else (3.0, 3))),
        *await _lateness(*((1.0, ("1s", "2s")) if quick else (20.0, LEVELS))),
        *await _herd(*((500, "1s") if quick else (HERD, HERD_DELAY))),
    ]


async def _starts(count: int) -> list[Figure]:
    took_s: Both = ([], [])
    memory: Both = ([], [])
    for _ in rounds("start beside RocketMQ", count):
        for number, start in enumerate(_BOTH):
            started = perf_counter()
            async with start() as broker:
                took_s[number].append(perf_counter() - started)
                await asyncio.sleep(IDLE_S)
                memory[number].append(sum(map(memory_mb, broker.pids)))
    return [
        _figure("new directory: name server and broker answer", "s", took_s, _TENTH),
        _figure("idle memory, of all processes", "MB", memory, _TENTH),
    ]


async def _sends(seconds: float, count: int) -> list[Figure]:
    rates: dict[tuple[bool, int], Both] = {}
    for _ in rounds("sends beside RocketMQ", count):
        for is_synced in (True, False):
            for number, start in enumerate(_BOTH):
                async with start(is_synced=is_synced) as broker:
                    await sends_per_second(HOST, broker.port, 8, 64, seconds)  # until Java has compiled it
                    for connections, in_flight in LOADS:
                        rate = await sends_per_second(HOST, broker.port, connections, in_flight, seconds)
                        rates.setdefault((is_synced, in_flight), ([], []))[number].append(rate)
    names = {True: "synced to disk", False: "not synced"}
    return [
        _figure(f"sends, {in_flight} in flight, {names[is_synced]}", "/s", both, _NO_FEWER)
        for (is_synced, in_flight), both in rates.items()
    ]


async def _lateness(seconds: float, levels: Sequence[str]) -> list[Figure]:
    count = int(PER_SECOND * seconds)
    say(f"{count} delayed messages beside RocketMQ, {PER_SECOND} a second over {len(levels)} levels")
    late: list[dict[int, list[float]]] = []
    for start in _BOTH:
        async with start(" ".join(levels)) as broker:
            late.append(await _delayed(broker, count, PER_SECOND, levels))
    return [
        _figure(f"level {level}, {delay}: {name} lateness", "ms", _quantiles(late, level, share), _TENTH)
        for level, delay in enumerate(levels, 1)
        for name, share in (("p50", 0.5), ("p99", 0.99))
    ]


async def _herd(size: int, delay: str) -> list[Figure]:
    say(f"a herd of {size:,} beside RocketMQ")
    late: list[dict[int, list[float]]] = []
    for start in _BOTH:
        async with start(delay) as broker:
            late.append(await _delayed(broker, size, None, (delay,)))
    return [
        _figure(
            f"{size:,} sent at once, to come after {delay}: {name} lateness",
            "ms",
            _quantiles(late, 1, share),
            _TENTH,
        )
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    ]


def _figure(name: str, unit: str, both: Both, aim: Aim) -> Figure:
    return Figure(name, unit, *both, aim=aim)


def _quantiles(late: list[dict[int, list[float]]], level: int, share: float) -> Both:
    ours, theirs = ([quantile(by_level[level], share)] for by_level in late)
    return ours, theirs


async def _delayed(
    broker: _Broker, count: int, per_second: float | None, levels: Sequence[str]
) -> dict[int, list[float]]:
    """By level, how many milliseconds late messages were in the hands of a consumer that holds pulls.

    They are sent at a pace, or as fast as they are answered. They were due their delay after the broker had
    stored them, of which it tells when the parked messages are looked at in the end.
    """
    parked: dict[int, int] = {}
    got_us: dict[int, int] = {}
    all_there, may_send = asyncio.Event(), asyncio.Semaphore(256)

    def sent(opaque: int, head: bytes, _body: bytes) -> None:
        check(head)
        found = _MESSAGE_ID.search(head)
        assert found, f"an answer without message id: {head!r}"
        parked[opaque] = int(found[1][16:], 16)
        may_send.release()

    def pulled(opaque: int, head: bytes, body: bytes) -> bytes:
        now_us = wall_us()
        if check(head, (0, 19, 20, 21)) == 0:
            for record in decode_records(body):
                got_us[record.flag] = now_us
            if len(got_us) == count + 1:
                all_there.set()
        found = _NEXT.search(head)
        assert found, f"an answer without next offset: {head!r}"
        return pull_frame(opaque, opaque, int(found[1]), wait_ms=15_000)

    producer = await connect(HOST, broker.port, sent)
    consumer = await connect(HOST, broker.port, pulled)
    await producer.ask(send_frame(count, flag=count))  # makes the topic
    for queue_id in range(QUEUES):
        consumer.write(pull_frame(queue_id, queue_id, 0, wait_ms=15_000))
    started = perf_counter()
    for number in range(count):
        await may_send.acquire()
        while per_second and number > (perf_counter() - started) * per_second:  # noqa: ASYNC110 - its pace
            await asyncio.sleep(TICK_S)
        level, queue_id = 1 + number % len(levels), number % QUEUES
        producer.write(send_frame(number, level=level, queue_id=queue_id, flag=number))
    await all_there.wait()
    stored_ms = await _stored_ms(broker, parked)
    producer.close()
    consumer.close()
    late: dict[int, list[float]] = {}
    for number in range(count):
        level = 1 + number % len(levels)
        due_ms = stored_ms[number] + int(levels[level - 1].removesuffix("s")) * 1_000
        late.setdefault(level, []).append(got_us[number] / US_PER_MS - due_ms)
    return late


async def _stored_ms(broker: _Broker, parked: dict[int, int]) -> dict[int, int]:
    """When each of the parked messages was stored."""
    stored: dict[int, int] = {}
    async with connected(HOST, broker.port) as client:
        numbers = list(parked)
        for start in range(0, len(numbers), _LOOK_UPS):
            some = numbers[start : start + _LOOK_UPS]
            asked = [client.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": str(parked[one])}) for one in some]
            for number, answer in zip(some, await asyncio.gather(*asked), strict=True):
                [record] = decode_records(answer.body)
                stored[number] = record.store_ms
    return stored
