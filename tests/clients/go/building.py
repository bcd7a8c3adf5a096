"""Builds the Go client's driver, and other programs of its module."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.go.versions import FOLDER

BUILD_S = 1_800.0


def build(made_of: Path | str, into: Path) -> None:
    """Build a program in the module of this folder; Go's cache provides unchanged parts."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs Go")
    done = subprocess.run(
        [go, "build", "-o", into, made_of],
        check=False,
        cwd=FOLDER,
        timeout=BUILD_S,
        text=True,
        capture_output=True,
    )
    if done.returncode:
        pytest.fail(f"go build failed:\n{done.stdout}{done.stderr}")
