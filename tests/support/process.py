"""A broker in its own process, for tests that stop or kill it, or check its exit."""

import asyncio
import os
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.fork_server import Forked, fork
from tests.support.patience import HANGING_S

"""Time in real seconds within which a process must start or stop, or the test fails."""

SERVE = ("serve", "--port", "0", "--data", ":memory:")

_URL = re.compile(r"http://\S+:\d+")
_GRPC = re.compile(r"gRPC at ([^\s,]+:\d+)")
_REMOTING = re.compile(r"name server at (\S+):(\d+), broker port (\d+)")


class StartError(Exception):
    """The broker exited before it was ready, with ``returncode`` and ``stderr``."""

    def __init__(self, returncode: int, stderr: str) -> None:
        super().__init__(f"the broker exited with {returncode} before it was ready:\n{stderr}")
        self.returncode = returncode
        self.stderr = stderr


class BrokerProcess:
    """A running broker, started by :func:`broker_process`."""

    def __init__(self, process: Process | Forked) -> None:
        self.start_line = ""
        self._process = process
        self._stderr: list[bytes] = []
        self._wrote = asyncio.Condition()
        self._reading = asyncio.create_task(self._read_stderr())

    @property
    def url(self) -> str:
        """The URL of its JSON API."""
        found = _URL.search(self.start_line)
        assert found, f"the start line names no address: {self.start_line!r}"
        return found[0]

    @property
    def name_server(self) -> tuple[str, int]:
        """Host and port of its name server."""
        host, port, _ = self._remoting()
        return host, int(port)

    @property
    def broker_port(self) -> int:
        """The port of its broker, on the same host."""
        return int(self._remoting()[2])

    @property
    def grpc(self) -> str:
        """Host and port of its gRPC endpoint."""
        found = _GRPC.search(self.start_line)
        assert found, f"the start line names no gRPC door: {self.start_line!r}"
        return found[1]

    def _remoting(self) -> tuple[str, ...]:
        found = _REMOTING.search(self.start_line)
        assert found, f"the start line names no name server: {self.start_line!r}"
        return found.groups()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def stderr(self) -> str:
        """Its stderr so far, which is complete after :meth:`wait`."""
        return b"".join(self._stderr).decode()

    async def logs(self, text: str) -> None:
        """Wait until stderr contains this text."""
        async with asyncio.timeout(HANGING_S), self._wrote:
            await self._wrote.wait_for(lambda: text in self.stderr)

    def kill(self) -> None:
        """Send SIGKILL; has no effect on a process that has exited."""
        if self._process.returncode is None:
            self._process.kill()

    def terminate(self) -> None:
        """Send SIGTERM; has no effect on a process that has exited."""
        if self._process.returncode is None:
            self._process.terminate()

    async def wait(self) -> int:
        """Wait for the exit code, which is negative for a signal."""
        async with asyncio.timeout(HANGING_S):
            # Read both pipes to the end, because a full pipe would block the process.
            assert self._process.stdout
            await asyncio.gather(self._process.stdout.read(), asyncio.shield(self._reading))
            return await self._process.wait()

    async def ready(self) -> None:
        """Wait for the start line. Raises StartError."""
        assert self._process.stdout
        async with asyncio.timeout(HANGING_S):
            self.start_line = (await self._process.stdout.readline()).decode()
        if not self.start_line:
            raise StartError(await self.wait(), self.stderr)

    async def _read_stderr(self) -> None:
        assert self._process.stderr
        async for line in self._process.stderr:
            async with self._wrote:
                self._stderr.append(line)
                self._wrote.notify_all()


@asynccontextmanager
async def broker_process(
    *args: str,
    env: Mapping[str, str] | None = None,
    wrapper: Sequence[str] = (),
    program: Sequence[str] = (sys.executable, "-m", "mocketmq"),
) -> AsyncIterator[BrokerProcess]:
    """Run ``mocketmq serve`` on free ports and, unless ``args`` say otherwise, in memory; stop it on exit.

    ``env`` is added to an environment without any setting of the emulator. ``wrapper`` is a command that runs
    the command in its arguments, such as ``env``. Raises StartError.
    """
    started = await asyncio.create_subprocess_exec(
        *wrapper,
        *(*program, *SERVE, *args),
        env=clean_environment() | dict(env or {}),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    async with _running(started) as process:
        yield process


@asynccontextmanager
async def forked_broker(*args: str, env: Mapping[str, str] | None = None) -> AsyncIterator[BrokerProcess]:
    """Like :func:`broker_process`, but ten times as fast: it forks a process that has imported everything."""
    async with _running(await fork([*SERVE, *args], clean_environment() | dict(env or {}))) as process:
        yield process


@asynccontextmanager
async def opened_pack(file: Path) -> AsyncIterator[BrokerProcess]:
    """Run ``mocketmq open`` on a pack. Raises StartError."""
    async with _running(await fork(["open", str(file)], clean_environment())) as process:
        yield process


@asynccontextmanager
async def _running(started: Process | Forked) -> AsyncIterator[BrokerProcess]:
    process = BrokerProcess(started)
    try:
        await process.ready()
        yield process
        process.terminate()
        await process.wait()
    finally:
        process.kill()
        await process.wait()


def clean_environment() -> dict[str, str]:
    """Return the environment of this process without settings of the emulator."""
    return {name: text for name, text in os.environ.items() if not name.startswith("MOCKETMQ_")}
