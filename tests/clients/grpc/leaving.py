"""Runs programs that close a client while it receives, idle, and close a client while it sends."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.clients.grpc.programs import Program, RunningProgram, running

IDLE_S = 5.0
"""Time in real seconds for which an idle consumer is observed."""


class Sends(NamedTuple):
    """Outcomes of the sends in progress when their client was closed."""

    ok: int
    failed: int
    open: int


class Idle(NamedTuple):
    """Costs of an idle consumer: number of answered receives, and seconds of CPU time."""

    receives: int
    client_s: float
    broker_s: float


class Closed(NamedTuple):
    """Output and costs of a program; ``uncaught`` has errors that no caller could catch."""

    receive: str
    idle: Idle
    sends: Sends
    uncaught: list[str]


async def play(
    program: Program,
    home: Path,
    address: str,
    sent: str,
    empty: str,
    broker_pid: int,
    receives: Callable[[], Awaitable[int]],
) -> Closed:
    """Run the program, which sends to one topic; ``receives`` counts answered receives of another."""

    async def measured() -> Idle:
        return Idle(await receives(), _cpu_s(client.process.pid), _cpu_s(broker_pid))

    printed: dict[str, str] = {}
    uncaught: list[str] = []
    async with running(program, home, address, sent, empty) as client:
        await _read(client, "idle", printed, uncaught)
        before = await measured()
        await asyncio.sleep(IDLE_S)
        after = await measured()
        client.stdin.close()
        await _read(client, None, printed, uncaught)
        assert await client.process.wait() == 0
    idle = Idle(
        after.receives - before.receives,
        after.client_s - before.client_s,
        after.broker_s - before.broker_s,
    )
    return Closed(printed["receive"], idle, Sends(*map(int, printed["sends"].split())), uncaught)


async def _read(
    client: RunningProgram, last: str | None, printed: dict[str, str], uncaught: list[str]
) -> None:
    """Read lines by kind, up to the line of kind ``last`` or to the end."""
    async for line in client.stdout:
        kind, _, rest = line.decode().strip().partition(" ")
        if kind == "uncaught":
            uncaught.append(rest)
        elif kind in ("receive", "idle", "sends"):
            printed[kind] = rest
        if kind == last:
            return
    assert last is None, f"the program has ended after it printed {printed}"


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
