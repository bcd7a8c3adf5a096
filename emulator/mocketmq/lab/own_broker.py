"""Runs a broker in a separate process for a command that needs one."""

import asyncio
import os
import re
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from mocketmq.clock import steady_us
from mocketmq.errors import EmulatorError
from mocketmq.own_command import own_command

_STOP_S = 30.0
_URL = re.compile(r"http://\S+:\d+")


class OwnBroker(NamedTuple):
    """A ready broker, with its JSON API, its process, and the time that it took to start."""

    url: str
    pid: int
    start_us: int


@asynccontextmanager
async def own_broker(data: Path, *options: str) -> AsyncIterator[OwnBroker]:
    """Start a broker with the data directory ``data`` on free ports, yield it, and stop it at the end.

    The broker ignores settings in the environment, and stops when this process dies. Raises EmulatorError if
    it does not start.
    """
    began_us = steady_us()
    process = await asyncio.create_subprocess_exec(
        *(*own_command(), "serve", "--until-eof"),
        *("--port", "0", "--data", str(data), "--log-level", "warning", *options),
        env={name: text for name, text in os.environ.items() if not name.startswith("MOCKETMQ_")},
        stdin=PIPE,  # when this process dies, the pipe closes and the broker stops
        stdout=PIPE,
        start_new_session=True,  # only the command gets Ctrl-C, and then stops its broker
    )
    try:
        assert process.stdout is not None  # noqa: S101 - for the type checker
        found = _URL.search((await process.stdout.readline()).decode())
        if found is None:
            raise EmulatorError("the broker did not start; its output says why")
        yield OwnBroker(found[0], process.pid, steady_us() - began_us)
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            async with asyncio.timeout(_STOP_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
