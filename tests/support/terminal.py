"""A shell that runs one command after another, as a reader of the documentation would."""

import asyncio
import os
import shlex
import signal
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.patience import HANGING_S

_END = "── the end of a command, and its exit code:"


class Ended(NamedTuple):
    """The output of a command on stdout and stderr, and its exit code."""

    output: str
    code: int


class Terminal:
    """A running shell, started by :func:`terminal`."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def run(self, command: str) -> Ended:
        """Run one or more lines of shell to completion. Variables that they set stay set."""
        self.start(f"{{\n{command}\n}} </dev/null\nprintf '\\n%s %s\\n' {shlex.quote(_END)} $?")
        lines: list[str] = []
        while not (line := await self.line()).startswith(_END):
            lines.append(line)
        return Ended("".join(lines).rstrip("\n"), int(line.removeprefix(_END)))

    def start(self, command: str) -> None:
        """Start a command that keeps running."""
        assert self._process.stdin
        self._process.stdin.write(f"{command}\n".encode())

    async def line(self) -> str:
        """Return the next line of output."""
        assert self._process.stdout
        async with asyncio.timeout(HANGING_S):
            line = await self._process.stdout.readline()
        assert line, "the shell has ended"
        return line.decode()

    async def interrupt(self) -> None:
        """Press Ctrl-C, then wait for the shell to exit."""
        assert self._process.stdin
        os.killpg(self._process.pid, signal.SIGINT)
        self._process.stdin.close()
        async with asyncio.timeout(HANGING_S):
            await self._process.wait()


@asynccontextmanager
async def terminal(
    directory: Path, environment: Mapping[str, str], wrapper: Sequence[str] = ()
) -> AsyncIterator[Terminal]:
    """Run bash in this directory, started by ``wrapper``. On exit, kill bash and every process it started."""
    process = await asyncio.create_subprocess_exec(
        *(*wrapper, "bash", "--norc", "--noprofile"),
        cwd=directory,
        env=environment,
        stdin=PIPE,
        stdout=PIPE,
        stderr=STDOUT,
        limit=1 << 20,
        start_new_session=True,
    )
    try:
        yield Terminal(process)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
