"""A terminal: a shell that is told one command after the other, as by a reader of the documentation."""

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
    """What a command printed, on both ways, and its exit code."""

    output: str
    code: int


class Terminal:
    """A running shell. Made by :func:`terminal`."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def run(self, command: str) -> Ended:
        """Run a command, or several lines, to its end; what it sets stays set."""
        self.start(f"{{\n{command}\n}} </dev/null\nprintf '\\n%s %s\\n' {shlex.quote(_END)} $?")
        lines: list[str] = []
        while not (line := await self.line()).startswith(_END):
            lines.append(line)
        return Ended("".join(lines).rstrip("\n"), int(line.removeprefix(_END)))

    def start(self, command: str) -> None:
        """Start a command that goes on."""
        assert self._process.stdin
        self._process.stdin.write(f"{command}\n".encode())

    async def line(self) -> str:
        """The next line of output."""
        assert self._process.stdout
        async with asyncio.timeout(HANGING_S):
            line = await self._process.stdout.readline()
        assert line, "the shell has ended"
        return line.decode()

    async def interrupt(self) -> None:
        """Ctrl-C, then wait for the shell's end."""
        assert self._process.stdin
        os.killpg(self._process.pid, signal.SIGINT)
        self._process.stdin.close()
        async with asyncio.timeout(HANGING_S):
            await self._process.wait()


@asynccontextmanager
async def terminal(
    directory: Path, environment: Mapping[str, str], wrapper: Sequence[str] = ()
) -> AsyncIterator[Terminal]:
    """A bash in this directory, started by ``wrapper``; ended by force, with what it started, at the end."""
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
