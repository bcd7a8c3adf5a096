"""The SDKs of RocketMQ 5: each is installed, and a program that uses it is built and run."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.grpc import versions
from tests.clients.grpc.versions import FOLDER, JAVA, OLDEST_PYTHON
from tests.clients.rust.building import PLAIN

BUILD = FOLDER.parents[2] / "build"
PACKAGES = BUILD / "rocketmq-python-client"  # where mypy does not look
OLDEST_PACKAGES = BUILD / f"rocketmq-python-client-{OLDEST_PYTHON}"
INSTALL_S = 1_200.0
"""Real seconds; a first build of Rust's takes two minutes on two idle cores."""


class Program(NamedTuple):
    """How a program is started, before its arguments."""

    command: Sequence[str]
    environment: Mapping[str, str] = {}


def python(source: Path, home: Path) -> Program:
    """Run with ``rocketmq-python-client``, beside the packages of this environment: it needs grpcio."""
    wanted = FOLDER / "python" / "requirements.txt"
    return _python(source, home, PACKAGES, wanted, "-r", str(wanted))


def oldest_python(source: Path, home: Path) -> Program:
    """Run with the oldest ``rocketmq-python-client``."""
    packages = OLDEST_PACKAGES, Path(versions.__file__)
    return _python(source, home, *packages, f"rocketmq-python-client=={OLDEST_PYTHON}")


def _python(source: Path, home: Path, packages: Path, made_of: Path, *wanted: str) -> Program:
    if not _is_newer(packages, made_of):
        shutil.rmtree(packages, ignore_errors=True)
        pip = (sys.executable, "-m", "pip", "install", "--quiet")
        _install(*pip, "--target", str(packages), *wanted)
        packages.touch()
    return Program((sys.executable, str(source)), {"PYTHONPATH": str(packages), "HOME": str(home)})


def node(source: Path, home: Path) -> Program:
    """Run with ``rocketmq-client-nodejs``."""
    folder = FOLDER / "node"
    modules = folder / "node_modules"
    if not _is_newer(modules, folder / "package-lock.json"):
        _install("npm", "ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", folder=folder)
        modules.touch()
    return Program(("node", str(source)), {"HOME": str(home), "NODE_PATH": str(modules)})


def java(source: Path, home: Path, version: str) -> Program:
    """Run with ``rocketmq-client-java``."""
    folder = FOLDER / "java"
    jars = folder / "target" / version / "lib"
    if not _is_newer(jars, folder / "pom.xml"):
        goal = "dependency:copy-dependencies"
        _install("mvn", "-B", "-q", f"-Dclient.version={version}", goal, folder=folder)
        jars.touch()
    options = ("-XX:TieredStopAtLevel=1", f"-Duser.home={home}", "-cp", str(jars / "*"))
    return Program(("java", *options, str(source)))


def go(source: Path, home: Path) -> Program:
    """Build with ``rocketmq-clients/golang/v5``."""
    program = home / "program"
    _install("go", "build", "-o", str(program), str(source), folder=FOLDER / "go")
    return Program((str(program),), {"HOME": str(home)})


def rust(source: Path, home: Path) -> Program:
    """Build with ``rocketmq``, which needs protoc."""
    if shutil.which("protoc") is None:
        pytest.skip("needs protoc")
    package, program = FOLDER / "rust", "scenario"
    if not source.is_relative_to(package):
        for name in ("Cargo.toml", "Cargo.lock"):
            shutil.copyfile(package / name, home / name)
        (home / "src" / "bin").mkdir(parents=True)
        shutil.copyfile(source, home / "src" / "bin" / source.name)
        package, program = home, source.stem
    target = BUILD / "rust-grpc"
    _install(
        "cargo", "build", "--quiet", "--locked", "--bin", program, "--target-dir", str(target), folder=package
    )
    return Program((str(target / "debug" / program),))


SDKS: Mapping[str, Callable[[Path, Path], Program]] = {
    "python-grpc": python,
    **{client: partial(java, version=version) for client, version in JAVA.items()},
    "node-grpc": node,
    "go-grpc": go,
    "rust-grpc": rust,
}
"""By client, as the compatibility page calls it: makes a program of its source, and a home for its logs."""

SCENARIOS = {
    "python-grpc": "python/scenario.py",
    "java-5.0-grpc": "java/src/Scenario.java",
    "java-5.2-grpc": "java/src/Scenario.java",
    "node-grpc": "node/scenario.js",
    "go-grpc": "go/main.go",
    "rust-grpc": "rust/src/main.rs",
}
"""By client, the program that does what applications do."""

LEAVING: Mapping[str, tuple[Callable[[Path, Path], Program], str]] = {
    "java-5.0-grpc": (SDKS["java-5.0-grpc"], "java/src/Leaving.java"),
    "java-5.2-grpc": (SDKS["java-5.2-grpc"], "java/src/Leaving.java"),
    "node-grpc": (node, "node/leaving.js"),
    "go-grpc": (go, "go/leaving/main.go"),
    "python-5.0-grpc": (oldest_python, "python/leaving.py"),
    "python-grpc": (python, "python/leaving.py"),
}
"""By client, how the program is made that closes it while it works, and its source.

Of Java and Python, the oldest client and the newest; of Node and Go, the newest. In Rust, a client that sends
or receives cannot be closed: ``shutdown`` takes it by value.
"""


def _is_newer(made: Path, made_of: Path) -> bool:
    return made.exists() and made.stat().st_mtime > made_of.stat().st_mtime


def _install(*command: str, folder: Path = FOLDER) -> None:
    tool = shutil.which(command[0])
    if tool is None:
        pytest.skip(f"needs {command[0]}")
    done = subprocess.run(
        [tool, *command[1:]],
        check=False,
        cwd=folder,
        env=os.environ | PLAIN,
        timeout=INSTALL_S,
        text=True,
        capture_output=True,
    )
    if done.returncode:
        pytest.fail(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
