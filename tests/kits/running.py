"""Runs the tools of other languages, which find this ``mocketmq`` on their path."""

import os
import subprocess
import sys
from pathlib import Path

BUILD_S = 600.0


def run(*command: str, cwd: Path, fails: bool = False, **variables: str) -> str:
    """Run a command, which must succeed or must fail as requested, and return its output."""
    done = subprocess.run(
        command,
        check=False,
        cwd=cwd,
        env=environment() | variables,
        timeout=BUILD_S,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert (done.returncode != 0) == fails, done.stdout
    return done.stdout


def environment() -> dict[str, str]:
    """Return our environment with this ``mocketmq`` on the path, and no setting for another."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ours = {name: text for name, text in os.environ.items() if not name.startswith("MOCKETMQ_")}
    return ours | {"PATH": path}
