"""The command `mocketmq relay kafka` in its own process."""

import asyncio
import signal
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from tests.relay.kafka_clients import KafkaClients
from tests.support.patience import HANGING_S
from tests.support.process import clean_environment

SESSION_S: Final = 6
"""Time in seconds without a heartbeat after which a relay counts as dead."""


class RelayProcess:
    """A running relay, started by :func:`relay_process`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.lines: list[str] = []
        self.said: list[str] = []
        self._news = asyncio.Event()
        self._reading = asyncio.gather(
            self._read(process.stdout, self.lines), self._read(process.stderr, self.said)
        )

    async def _read(self, stream: asyncio.StreamReader | None, lines: list[str]) -> None:
        assert stream is not None
        async for line in stream:
            lines.append(line.decode().rstrip())
            self._news.set()

    async def tells(self, text: str, count: int = 1) -> None:
        """Wait until this many lines on stdout or stderr contain the text."""
        async with asyncio.timeout(HANGING_S):
            while sum(text in line for line in (*self.lines, *self.said)) < count:
                assert not self._process.stdout or not self._process.stdout.at_eof(), self.said
                self._news.clear()
                await self._news.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send the relay a signal."""
        self._process.send_signal(number)

    async def stop(self) -> None:
        """Send SIGTERM, after which the relay must stop cleanly."""
        self.signal(signal.SIGTERM)
        async with asyncio.timeout(HANGING_S):
            assert await self._process.wait() == 0, self.said
            await self._reading

    async def kill(self) -> None:
        """Send SIGKILL."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._reading


def _command(kafka: KafkaClients, topic: str) -> tuple[str, ...]:
    relay = (sys.executable, "-m", "mocketmq", "relay", "kafka")
    return (*relay, "--bootstrap", kafka.bootstrap, "--topic", topic)


def ended_relay(kafka: KafkaClients, topic: str, *args: str) -> tuple[int, str]:
    """Return exit code and stderr of a relay that fails to start."""
    ended = subprocess.run(
        [*_command(kafka, topic), *args],
        env=clean_environment(),
        check=False,
        timeout=HANGING_S,
        text=True,
        capture_output=True,
    )
    return ended.returncode, ended.stderr


@asynccontextmanager
async def relay_process(kafka: KafkaClients, topic: str, *args: str) -> AsyncIterator[RelayProcess]:
    """Run a relay until it reports what it serves; kill it on exit if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *_command(kafka, topic),
        *("--kafka-option", f"session_timeout_ms={SESSION_S * 1_000}"),
        *("--kafka-option", "heartbeat_interval_ms=1000", *args),
        env=clean_environment(),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    relay = RelayProcess(process)
    try:
        await relay.tells("serving")
        yield relay
    finally:
        await relay.kill()
