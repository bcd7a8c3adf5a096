"""Builds the Rust client's driver, and other programs with the same lock."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.rust.versions import FOLDER

BUILD_S = 3_600.0
"""Time limit in real seconds; a first build takes two minutes on two idle cores."""
_BUILT = FOLDER.parents[2] / "build" / "rust"
PLAIN = {"CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_INCREMENTAL": "0"}
"""Cargo's settings for faster builds, without debug information."""


def build(program: str, package: Path = FOLDER) -> Path:
    """Build a program of a package; Cargo reuses unchanged results."""
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("needs Cargo")
    done = subprocess.run(
        [cargo, "build", "--locked", "--bin", program, "--target-dir", _BUILT],
        check=False,
        cwd=package,
        env=os.environ | PLAIN,
        timeout=BUILD_S,
        text=True,
        capture_output=True,
    )
    if done.returncode:
        pytest.fail(f"cargo build failed:\n{done.stdout}{done.stderr}")
    return _BUILT / "debug" / program
