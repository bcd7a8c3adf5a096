"""Runs `mocketmq record` and `mocketmq replay` as processes, and reads recordings."""

import json
from pathlib import Path
from typing import Any

from tests.support.command_line import Ended
from tests.support.fork_server import Forked, fork
from tests.support.process import clean_environment


async def started(*arguments: str) -> Forked:
    """Start a command."""
    return await fork(arguments, clean_environment())


async def result(process: Forked) -> Ended:
    """Wait until the command ends."""
    stdout, stderr = await process.stdout.read(), await process.stderr.read()
    return Ended(await process.wait(), stdout.decode(), stderr.decode())


async def ended(*arguments: str) -> Ended:
    """Run a command to its end."""
    return await result(await started(*arguments))


async def recorded(name_server: str, path: Path, *more: str) -> dict[str, Any]:
    """Record the topic ``orders``, which must succeed, and return the summary."""
    done = await ended(
        *("record", "--name-server", name_server, "--topic", "orders", "--to", str(path), "--json", *more)
    )
    assert done.code == 0, done
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


async def replayed(url: str, path: Path, *more: str) -> dict[str, Any]:
    """Replay a recording, which must succeed, and return the summary."""
    done = await ended("replay", str(path), "--url", url, "--json", *more)
    assert done.code == 0, done
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def lines(path: Path) -> list[dict[str, Any]]:
    """The messages of a recording, without its header."""
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]
