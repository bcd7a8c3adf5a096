"""The programs of docs/rocketmq.md, run as a reader would run them."""

import asyncio
import os
import re
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "rocketmq.md"

_PROGRAM = re.compile(r"<!-- test: (\w+) -->\n```\w+\n(.*?)```", re.DOTALL)


def programs() -> dict[str, str]:
    """Return all programs, by the mark before each."""
    return dict(_PROGRAM.findall(PAGE.read_text()))


def snippet(name: str, name_server: str, url: str) -> str:
    """Return the program of this name, with the addresses of a broker."""
    return programs()[name].replace("127.0.0.1:9876", name_server).replace("http://127.0.0.1:9877", url)


@asynccontextmanager
async def running_program(
    *command: str | Path, home: Path, env: Mapping[str, str] | None = None
) -> AsyncIterator[asyncio.StreamReader]:
    """Run a program, yield its output, and kill it on exit."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=PIPE, env=os.environ | {"HOME": str(home)} | dict(env or {})
    )
    assert process.stdout
    try:
        yield process.stdout
    finally:
        process.kill()
        await process.wait()
