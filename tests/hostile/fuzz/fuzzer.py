"""Sends mutated requests by all protocols of a broker, and watches the broker and other clients."""

import asyncio
import re
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final

import aiohttp
import psutil

from mocketmq.clock import US_PER_S, steady_us
from tests.hostile.fuzz.doors import FuzzedDoor, fuzzed_doors
from tests.support.process import BrokerProcess

_CONNECTIONS: Final = 4
"""Number of concurrent connections to each protocol."""
_ANSWER_S: Final = 0.2
"""Maximum wait of a connection for an answer."""
_ANSWER_BYTES: Final = 1 << 16
_LOG_LINES: Final = 100
"""Number of last log lines kept of a finding, because a traceback ends with its error."""
_WATCH_S: Final = 1.0
_HONEST_S: Final = 20.0
_MOST_BYTES: Final = 400_000_000
_DEFECTS: Final = re.compile(
    "a defect in mocketmq|Traceback|never retrieved|never awaited|CRITICAL|has not run for|BlockingIOError"
)
_REFUSED: Final = re.compile(rb"HTTP/1.1 500 |a defect in mocketmq")


@dataclass(slots=True)
class Fuzzed:
    """The number of cases sent to each protocol, and the findings, with their cases if known."""

    seed: int
    cases: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    slowest_ms: float = 0.0
    peak_bytes: int = 0
    has_logged: bool = False
    """Whether the log shows a defect, which becomes a finding when the attacks have ended."""

    @property
    def is_over(self) -> bool:
        """Whether a defect is known."""
        return bool(self.findings) or self.has_logged


def case(seed: int, door: FuzzedDoor, number: int) -> bytes:
    """Return the bytes of one connection, always the same for a seed."""
    return door.make(Random(f"{seed}/{door.name}/{number}"))


async def fuzz(broker: BrokerProcess, seed: int, *, cases: int, seconds: float, kept: Path) -> Fuzzed:
    """Send up to ``cases`` to each protocol, for a limited time.

    The bytes of a case that shows a defect at once are written to the folder ``kept``.
    """
    kept.mkdir(exist_ok=True, parents=True)  # noqa: ASYNC240 - nothing runs yet
    fuzzed = Fuzzed(seed)
    ends_us = steady_us() + int(seconds * US_PER_S)
    doors = await fuzzed_doors(broker)
    async with _watched(broker, fuzzed):
        numbers = {door.name: iter(range(cases)) for door in doors}

        async def attack(door: FuzzedDoor) -> None:
            for number in numbers[door.name]:
                if steady_us() > ends_us or fuzzed.is_over:
                    return
                data = case(seed, door, number)
                answer = await _sent(door, data, Random(number))
                fuzzed.cases[door.name] += 1
                fuzzed.answered[door.name] += bool(answer)
                if _REFUSED.search(answer):
                    path = kept / f"{door.name.replace(' ', '-')}-{seed}-{number}"
                    path.write_bytes(data)
                    fuzzed.findings.append(f"{door.name}, case {number} ({path}): {answer[:400]!r}")

        async with asyncio.TaskGroup() as attacks:
            for door in doors:
                for _ in range(_CONNECTIONS):
                    attacks.create_task(attack(door))
    return fuzzed


async def _sent(door: FuzzedDoor, data: bytes, rng: Random) -> bytes:
    """Send a case, return the first answer, if any, and close the connection in one of three ways."""
    answer = b""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_HONEST_S):
            reader, writer = await asyncio.open_connection(*door.address)
        try:
            writer.write(data)
            if way := rng.randrange(3):
                writer.write_eof()
            with suppress(TimeoutError):
                async with asyncio.timeout(_ANSWER_S):
                    await writer.drain()
                    while len(answer) < _ANSWER_BYTES and (piece := await reader.read(_ANSWER_BYTES)):
                        answer += piece
            if way == 1:  # the peer gets a reset
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    return answer


@asynccontextmanager
async def _watched(broker: BrokerProcess, fuzzed: Fuzzed) -> AsyncIterator[None]:
    """Send, receive and check memory during the context, and check the log at the end."""
    async with AsyncExitStack() as stack:
        timeout = aiohttp.ClientTimeout(_HONEST_S)
        session = await stack.enter_async_context(aiohttp.ClientSession(broker.url, timeout=timeout))
        watching = asyncio.create_task(_watch(session, broker, fuzzed))
        try:
            yield
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        fuzzed.findings += await _look(session, broker, fuzzed)
    fuzzed.findings += _logged(broker)


def _logged(broker: BrokerProcess) -> list[str]:
    """The first defect in the log, if there is one."""
    lines = broker.stderr.splitlines()
    found = (at for at, line in enumerate(lines) if _DEFECTS.search(line))
    return ["log: " + "\n".join(lines[at : at + _LOG_LINES]) for at in islice(found, 1)]


async def _watch(session: aiohttp.ClientSession, broker: BrokerProcess, fuzzed: Fuzzed) -> None:
    """Look every second, and end the attacks when something is found."""
    while not fuzzed.is_over:
        fuzzed.findings += await _look(session, broker, fuzzed)
        fuzzed.has_logged = bool(_logged(broker))
        await asyncio.sleep(_WATCH_S)


async def _look(session: aiohttp.ClientSession, broker: BrokerProcess, fuzzed: Fuzzed) -> list[str]:
    """Act as an honest client, after ending the faults that cases have injected."""
    began_us = steady_us()
    try:
        async with session.delete("/v1/faults") as ended:
            assert ended.status == 200, await ended.text()
        async with session.post("/v1/topics/honest/messages", json={"body": "hello"}) as sent:
            assert sent.status == 201, await sent.text()
        async with session.get("/healthz") as health:
            assert health.status == 200
    except (AssertionError, TimeoutError, aiohttp.ClientError) as error:
        return [f"an honest client: {type(error).__name__} {error}"]
    fuzzed.slowest_ms = max(fuzzed.slowest_ms, (steady_us() - began_us) / 1_000)
    size: int = psutil.Process(broker.pid).memory_info().rss
    fuzzed.peak_bytes = max(fuzzed.peak_bytes, size)
    return [f"memory: {size} bytes"] if size > _MOST_BYTES else []
