"""The command line, run in this process."""

import asyncio
import json
import threading
from inspect import signature
from typing import Any, NamedTuple

from click.testing import CliRunner

from mocketmq.cli import commands


def runner(**env: str | None) -> CliRunner:
    """Return a runner that separates stdout and stderr; click before 8.2 does so only on request."""
    apart: dict[str, Any] = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
    return CliRunner(env=env, **apart)


class Ended(NamedTuple):
    code: int
    stdout: str
    stderr: str


class Shell:
    """Runs client commands against one broker in a thread, which is 20 times as fast as a process.

    click's runner replaces the environment and the output of this process while a command runs, so commands
    run one at a time. What happens beside a command is done by a :class:`~mocketmq.Client`.
    """

    _running = threading.Lock()

    def __init__(self, url: str, **env: str) -> None:
        self.url = url
        self._runner = runner(MOCKETMQ_URL=url, **env)

    async def __call__(self, *args: str) -> Ended:
        assert self._running.acquire(blocking=False), "two commands at a time"
        try:
            result = await asyncio.to_thread(self._runner.invoke, commands, args)
        finally:
            self._running.release()
        return Ended(result.exit_code, result.stdout, result.stderr)

    async def json(self, *args: str) -> Any:
        """Run a command that must succeed, and return its JSON output."""
        ended = await self(*args, "--json")
        assert (ended.code, ended.stderr) == (0, ""), ended
        return json.loads(ended.stdout)
