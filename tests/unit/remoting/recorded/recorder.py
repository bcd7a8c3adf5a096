"""Records what clients send while their tests run; see README.md.

As a pytest plugin, it makes this file start the brokers, and the file records the incoming frames.
"""

import ast
import json
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.frame import FrameReader
from mocketmq.remoting.wire.signature import is_signed
from tests.support import process

FOLDER = "RECORDED_FRAMES"
"""Environment variable with the directory for recorded frames."""
_CLIENTS = {
    ("JAVA", 273): "java-4.3",
    ("JAVA", 409): "java-4.9",
    ("JAVA", 479): "java-5.3",
    ("JAVA", 513): "java-5.5",
    ("JAVA", 300): "ons-java",
    ("JAVA", 121): "node",
    ("CPP", 63): "python",
    ("GO", 317): "go",
    ("RUST", 474): "rust",
}
"""Clients by the names that they send, with their names on the compatibility page."""

MAX_BYTES = 2_000
"""Maximum size of a recorded frame."""


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Make this file start the brokers. This hook runs before any test is imported."""
    started = process.broker_process

    def recorded(*args: str, wrapper: Sequence[str] = (), **more: Any) -> Any:
        return started(*args, wrapper=(*wrapper, sys.executable, "-m", __name__), **more)

    for each in (started, process.forked_broker):  # a forked broker would not record frames
        setattr(process, each.__name__, recorded)


def run(_python: str, _m: str, module: str, *args: str) -> None:
    """Run the given command line, ``python -m mocketmq serve …``, and record incoming frames."""
    folder = Path(os.environ[FOLDER])
    folder.mkdir(parents=True, exist_ok=True)
    out = (folder / f"{os.getpid()}.txt").open("w", encoding="utf-8")
    feed = FrameReader.feed
    noted: WeakKeyDictionary[FrameReader, bytes] = WeakKeyDictionary()

    def noting(reader: FrameReader, data: bytes) -> list[Command]:
        commands = feed(reader, data)
        rest = noted.pop(reader, b"") + data
        for _ in commands:
            end = 4 + int.from_bytes(rest[:4])
            out.write(f"{rest[:end]!r}\n")
            rest = rest[end:]
        noted[reader] = rest
        out.flush()
        return commands

    setattr(FrameReader, feed.__name__, noting)
    sys.argv = [module, *args]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def keep(folder: str) -> None:
    """Append the recorded frames to the files next to this module, one frame per kind and client."""
    from tests.clients.access import SECRET  # imports tests, so it must follow the plugin

    here = Path(__file__).parent
    kept: dict[Path, dict[Any, bytes]] = {}
    for path in (*sorted(here.rglob("*.txt")), *sorted(Path(folder).glob("*.txt"))):
        for line in path.read_text("utf-8").splitlines():
            frame: bytes = ast.literal_eval(line)
            [command] = FrameReader().feed(frame)
            kind = (
                command.serialization,
                command.code,
                command.flag,
                *sorted(command.ext),
                *_names(command.body),
            )
            file = (here / "signed" if is_signed(command, SECRET) else here) / f"{_client(command)}.txt"
            if len(frame) <= MAX_BYTES and not command.is_response:
                kept.setdefault(file, {}).setdefault(kind, frame)
    for file, frames in kept.items():
        file.write_text("".join(f"{frame!r}\n" for frame in frames.values()), "utf-8")


def _client(command: Command) -> str:
    return _CLIENTS.get((command.language, command.version), f"{command.language}-{command.version}")


def _names(body: bytes) -> list[str]:
    """Return the names in a JSON body, which identify its kind."""
    try:
        value = json.loads(body)
    except ValueError:
        return []
    return sorted(value) if isinstance(value, dict) else []


if __name__ == "__main__":
    if len(sys.argv) > 2:
        run(*sys.argv[1:])
    else:
        keep(*sys.argv[1:])
