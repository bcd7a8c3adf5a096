"""A remoting client library in its own process, controlled through a driver."""

import asyncio
import itertools
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.clients.node_sdk import FOLDER
from tests.support.patience import HANGING_S

PYTHON = (sys.executable, str(Path(__file__).with_name("python_driver.py")))
NODE = ("node", str(FOLDER / "remoting.js"))

WAIT_S = HANGING_S
"""Time limit in real seconds for background work of clients, whose slowest timers take thirty."""

_LONGEST_LINE = 1 << 24


class ClientError(Exception):
    """The library threw an error with this text."""


class EndedError(Exception):
    """The client's process has ended; C++ libraries crash on unexpected answers."""


@dataclass(frozen=True, kw_only=True)
class Received:
    """A message as the library shows it. ``times`` is the number of retries."""

    body: str
    topic: str = ""
    tag: str | None = None
    keys: str | None = None
    message_id: str = ""
    queue_id: int = 0
    queue_offset: int = 0
    times: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)


class Driver:
    """A client library's process, started by :func:`running_driver`."""

    def __init__(self, process: Process) -> None:
        self.received: defaultdict[str, deque[Received]] = defaultdict(deque)
        """Messages of each consumer, by the name of the consumer or its group."""
        self.problems: list[str] = []
        """Errors that the library reported outside of calls."""
        self._process = process
        self._numbers = itertools.count()
        self._answers: dict[int, dict[str, Any]] = {}
        self._told = asyncio.Event()
        self._has_ended = False
        self._reading = asyncio.create_task(self._read())

    async def call(self, call: str, **arguments: object) -> Any:
        """Call the driver. Raises ClientError, EndedError."""
        number = next(self._numbers)
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"id": number, "call": call, **arguments}).encode() + b"\n")
        await self.until(lambda: number in self._answers)
        answer = self._answers.pop(number)
        if error := answer.get("error"):
            raise ClientError(error)
        return answer.get("result")

    async def next(self, member: str) -> Received:
        """Return the next message of a consumer. Raises EndedError."""
        await self.until(lambda: bool(self.received[member]))
        return self.received[member].popleft()

    async def bodies(self, member: str, count: int) -> list[str]:
        """Return the bodies of the consumer's next messages."""
        return [(await self.next(member)).body for _ in range(count)]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition on the library's reports holds. Raises EndedError."""
        async with asyncio.timeout(WAIT_S):
            while not holds():
                if self._has_ended:
                    code = await self._process.wait()
                    raise EndedError(signal.Signals(-code).name if code < 0 else f"exit code {code}")
                self._told.clear()
                await self._told.wait()

    async def kill(self) -> None:
        """End the client as a crash would."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._reading

    async def _read(self) -> None:
        assert self._process.stdout
        async for line in self._process.stdout:
            told = json.loads(line)
            if problem := told.get("problem"):
                self.problems.append(problem)
            elif message := told.get("message"):
                self.received[told["member"]].append(Received(**message))
            else:
                self._answers[told["id"]] = told
            self._told.set()
        self._has_ended = True
        self._told.set()


@asynccontextmanager
async def running_driver(command: tuple[str, ...], home: Path, **options: object) -> AsyncIterator[Driver]:
    """Run the library in its own process, with options of its driver and logs in ``home``."""
    process = await asyncio.create_subprocess_exec(
        *command,
        json.dumps(options),
        stdin=PIPE,
        stdout=PIPE,
        limit=_LONGEST_LINE,
        env=os.environ | {"HOME": str(home)},
    )
    driver = Driver(process)
    try:
        yield driver
    finally:
        await driver.kill()
