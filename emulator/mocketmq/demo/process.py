"""Run a broker for the demo, in a process of its own."""

import asyncio
import os
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mocketmq.errors import EmulatorError

_STOP_S = 30.0
_URL = re.compile(r"http://\S+:\d+")


@asynccontextmanager
async def own_broker(data: Path) -> AsyncIterator[str]:
    """Start a broker on ``data`` with a manual clock, yield its address, stop it at the end.

    It does not get the settings of the environment. Raises EmulatorError if it does not start.
    """
    arguments = ("--port", "0", "--data", str(data), "--clock", "manual", "--log-level", "warning")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "mocketmq", "serve", *arguments),
        env={name: text for name, text in os.environ.items() if not name.startswith("MOCKETMQ_")},
        stdin=DEVNULL,
        stdout=PIPE,
        start_new_session=True,  # Ctrl-C is for the demo, which then stops its broker
    )
    try:
        assert process.stdout is not None  # noqa: S101 - for the type checker
        found = _URL.search((await process.stdout.readline()).decode())
        if found is None:
            raise EmulatorError("the demo's broker did not start; its own message says why")
        yield found[0]
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            async with asyncio.timeout(_STOP_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
