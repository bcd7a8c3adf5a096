"""The SDKs of RocketMQ 5, each with a program that does what applications do: installed, built, and run."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

FOLDER = Path(__file__).parent
PACKAGES = FOLDER.parents[2] / "build" / "rocketmq-python-client"  # where mypy does not look
INSTALL_S = 600.0
JAVA = ("5.0.0", "5.2.0")
"""The oldest client and the newest."""


class Program(NamedTuple):
    """How a program is started, before the broker's address."""

    command: Sequence[str]
    environment: Mapping[str, str] = {}


def python(home: Path) -> Program:
    """``rocketmq-python-client``, beside the packages of this environment: it needs grpcio."""
    packages, wanted = PACKAGES, FOLDER / "python" / "requirements.txt"
    if not _is_newer(packages, wanted):
        shutil.rmtree(packages, ignore_errors=True)
        _install(
            sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages), "-r", str(wanted)
        )
        packages.touch()
    script = FOLDER / "python" / "scenario.py"
    return Program((sys.executable, str(script)), {"PYTHONPATH": str(packages), "HOME": str(home)})


def node(home: Path) -> Program:
    """``rocketmq-client-nodejs``."""
    folder = FOLDER / "node"
    if not _is_newer(folder / "node_modules", folder / "package-lock.json"):
        _install("npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", folder=folder)
        (folder / "node_modules").touch()
    return Program(("node", str(folder / "scenario.js")), {"HOME": str(home)})


def java(version: str) -> Callable[[Path], Program]:
    """``rocketmq-client-java``."""
    folder = FOLDER / "java"
    target = folder / "target" / version

    def made(home: Path) -> Program:
        if not _is_newer(target / "classes", folder / "src" / "Scenario.java"):
            goals = ("compiler:compile", "dependency:copy-dependencies")
            _install("mvn", "-B", "-q", f"-Dclient.version={version}", *goals, folder=folder)
        path = os.pathsep.join(map(str, (target / "classes", target / "lib" / "*")))
        return Program(
            ("java", "-XX:TieredStopAtLevel=1", f"-Duser.home={home}", "-cp", path, "Scenario"),
        )

    return made


def rust(_home: Path) -> Program:
    """``rocketmq``, whose build needs protoc."""
    if shutil.which("protoc") is None:
        pytest.skip("needs protoc")
    folder = FOLDER / "rust"
    _install("cargo", "build", "--quiet", "--locked", folder=folder)
    return Program((str(folder / "target" / "debug" / "scenario"),))


PROGRAMS: Mapping[str, Callable[[Path], Program]] = {
    "python": python,
    "node": node,
    **{f"java {version}": java(version) for version in JAVA},
    "rust": rust,
}


def _is_newer(made: Path, made_of: Path) -> bool:
    return made.exists() and made.stat().st_mtime > made_of.stat().st_mtime


def _install(*command: str, folder: Path = FOLDER) -> None:
    tool = shutil.which(command[0])
    if tool is None:
        pytest.skip(f"needs {command[0]}")
    done = subprocess.run(
        [tool, *command[1:]], check=False, cwd=folder, timeout=INSTALL_S, text=True, capture_output=True
    )
    if done.returncode:
        pytest.fail(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
