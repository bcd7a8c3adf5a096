"""Runs the commands on delay files, and creates directories for them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from mocketmq.cli import commands
from mocketmq_compat.delay.known_parts import KNOWN
from tests.support.command_line import runner
from tests.support.delayed_files import Made
from tests.support.patience import HANGING_S
from tests.support.process import clean_environment

NOWHERE = "http://127.0.0.1:9"
DUE = "2023-11-14T22:13:20.250Z"


class Ended(NamedTuple):
    code: int
    stdout: str
    stderr: str


def mocketmq(*args: str | Path) -> Ended:
    """Run the command in this process, where no broker can be reached."""
    alone = runner(MOCKETMQ_URL=NOWHERE, MOCKETMQ_TOKEN=None, MOCKETMQ_DATA=None)
    result = alone.invoke(commands, ["delayed", *map(str, args)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Ended(result.exit_code, result.stdout, result.stderr)


def answer(*args: str | Path, code: int = 0) -> Any:
    """Run the command with --json, and return its answer."""
    ended = mocketmq(*args, "--json")
    assert (ended.code, ended.stderr) == (code, ""), ended
    return json.loads(ended.stdout)


def in_a_process(*args: str | Path, code: str = "", **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the real command in a process; ``code`` is Python that runs before it."""
    command = [
        sys.executable,
        "-c",
        f"{code}\nfrom mocketmq.cli import main; main()",
        "delayed",
        *map(str, args),
    ]
    return subprocess.run(command, env=clean_environment(), timeout=HANGING_S, check=False, **options)


def files_below(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file() and path.name != KNOWN)
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def damaged(file: Made, delay: Path) -> Path:
    """Write a file with a changed byte in its body."""
    path = file.put(delay)
    path.write_bytes(file.content[:-1] + b"?")
    return path


def command(url: str, *args: str) -> Any:
    result = runner(MOCKETMQ_URL=url).invoke(commands, [*args, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
