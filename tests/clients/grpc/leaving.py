"""Plays the programs that close a client while it receives, idle, and close one while it sends."""

import asyncio
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.clients.grpc.programs import Program
from tests.support.patience import HANGING_S

IDLE_S = 5.0
"""Real seconds for which an idle consumer is watched."""


class Sends(NamedTuple):
    """What became of the sends that were in work when their client was closed."""

    ok: int
    failed: int
    open: int


class Idle(NamedTuple):
    """What an idle consumer costs: answered receives, and seconds of CPU time."""

    receives: int
    client_s: float
    broker_s: float


class Closed(NamedTuple):
    """What a program printed, and what it cost; ``uncaught`` are errors that no caller could catch."""

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
    """Send to one topic, and receive from an empty one; ``receives`` counts those answered so far."""

    async def measured() -> Idle:
        return Idle(await receives(), _cpu_s(process.pid), _cpu_s(broker_pid))

    printed: dict[str, str] = {}
    uncaught: list[str] = []
    async with _running(program, home, address, sent, empty) as process:
        assert process.stdin
        await _read(process, "idle", printed, uncaught)
        before = await measured()
        await asyncio.sleep(IDLE_S)
        after = await measured()
        process.stdin.close()
        await _read(process, None, printed, uncaught)
    idle = Idle(
        after.receives - before.receives,
        after.client_s - before.client_s,
        after.broker_s - before.broker_s,
    )
    return Closed(printed["receive"], idle, Sends(*map(int, printed["sends"].split())), uncaught)


async def _read(process: Process, last: str | None, printed: dict[str, str], uncaught: list[str]) -> None:
    """Read lines, each of one kind, up to the one of kind ``last`` or to the end."""
    assert process.stdout
    async for line in process.stdout:
        kind, _, rest = line.decode().strip().partition(" ")
        if kind == "uncaught":
            uncaught.append(rest)
        elif kind in ("receive", "idle", "sends"):
            printed[kind] = rest
        if kind == last:
            return
    assert last is None, f"the program has ended after it printed {printed}"


@asynccontextmanager
async def _running(program: Program, home: Path, *arguments: str) -> AsyncIterator[Process]:
    """The program, which has to end well."""
    with (home / "errors").open("w+b") as errors:
        process = await asyncio.create_subprocess_exec(
            *(*program.command, *arguments),
            env=os.environ | program.environment,
            stdin=PIPE,
            stdout=PIPE,
            stderr=errors,
        )
        try:
            async with asyncio.timeout(HANGING_S):
                yield process
                assert await process.wait() == 0
        except (AssertionError, TimeoutError) as error:
            errors.seek(0)
            error.add_note(errors.read().decode()[-4_000:])
            raise
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)
