"""Forks brokers from a process that has imported their modules, because imports dominate the start time.

A forked broker is a separate process like any other. It is a grandchild of the fork server: its parent waits
for the broker to exit and reports the exit code.
"""

import asyncio
import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from mocketmq import failpoint
from mocketmq.cli import main

_MODULES = ("mocketmq.cli.serve", "mocketmq.http_api.operations", "sqlite3", "uvloop")
_MOST_BYTES = 1 << 20
_LIMIT = 16 << 20


class Forked:
    """A forked broker with a subset of :class:`asyncio.subprocess.Process`; created by :func:`fork`."""

    def __init__(self, pid: int, output: Sequence[asyncio.StreamReader]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdout, self.stderr, end = output
        self._ending = asyncio.create_task(self._end(end))

    async def _end(self, end: asyncio.StreamReader) -> None:
        self.returncode = int(await end.read())

    async def wait(self) -> int:
        """Wait for the exit code, which is negative for a signal."""
        await asyncio.shield(self._ending)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        """Send SIGKILL."""
        _send(self.pid, signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM."""
        _send(self.pid, signal.SIGTERM)

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        _send(self.pid, number)


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


async def fork(arguments: Sequence[str], environment: Mapping[str, str]) -> Forked:
    """Start ``mocketmq`` with these arguments, in the directory of this process."""
    asked = {"arguments": list(arguments), "environment": dict(environment), "directory": str(Path.cwd())}
    pipes = [os.pipe() for _ in range(3)]
    socket.send_fds(_server(), [json.dumps(asked).encode()], [write for _, write in pipes])
    for _, write in pipes:
        os.close(write)
    files = [os.fdopen(read, "rb", 0) for read, _ in pipes]
    pid = int(files[2].readline())
    with ExitStack() as failed:
        failed.callback(_send, pid, signal.SIGKILL)
        for file in files:
            failed.callback(file.close)
        readers = [asyncio.StreamReader(_LIMIT) for _ in files]
        for reader, file in zip(readers, files, strict=True):
            reading = partial(asyncio.StreamReaderProtocol, reader)
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(reading, file)
            failed.callback(transport.close)
        failed.pop_all()
    return Forked(pid, readers)


@cache
def _server() -> socket.socket:
    """Return the socket for requests to the fork server, which exits with this process."""
    ours, its = socket.socketpair()
    with its:
        number = its.fileno()
        server = subprocess.Popen(
            [sys.executable, "-m", __name__, str(number)],
            pass_fds=[number],
            stdin=subprocess.DEVNULL,
            cwd=Path(__file__).parents[2],
        )
    atexit.register(server.wait)
    atexit.register(ours.close)  # exit handlers run last in, first out, so this one runs first
    return ours


def _serve(asked: socket.socket) -> list[str]:
    """Serve requests; in each forked broker, return its arguments."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the parents of brokers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        said, files, _, _ = socket.recv_fds(asked, _MOST_BYTES, 3)
        if not said:
            os._exit(0)
        if os.fork() == 0:
            asked.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if os.fork() == 0:
                return _become_broker(json.loads(said), *files)
            _tell_how_it_ends(*files)
        for file in files:
            os.close(file)


def _become_broker(asked: dict[str, Any], out: int, error: int, end: int) -> list[str]:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(out, 1)
    os.dup2(error, 2)
    os.write(end, b"%d\n" % os.getpid())
    for file in (out, error, end):
        os.close(file)
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    failpoint.arm(os.environ.get(failpoint.ENVIRONMENT, ""))
    if notes := os.environ.get("TEST_SYNC_NOTES"):
        import_module("tests.crash.sync_notes").note_syncs(notes)
    arguments: list[str] = asked["arguments"]
    return arguments


def _tell_how_it_ends(out: int, error: int, end: int) -> NoReturn:
    os.close(out)
    os.close(error)
    _, status = os.wait()
    os.write(end, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


if __name__ == "__main__":
    for module in _MODULES:
        import_module(module)
    gc.freeze()
    sys.argv = ["mocketmq", *_serve(socket.socket(fileno=int(sys.argv[1])))]
    main()
