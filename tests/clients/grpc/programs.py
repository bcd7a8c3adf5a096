"""Installs the SDKs of RocketMQ 5, and builds and runs programs that use them."""

import asyncio
import os
import shutil
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.grpc import versions
from tests.clients.grpc.versions import FOLDER, JAVA, OLDEST_PYTHON
from tests.clients.rust.building import PLAIN
from tests.support.patience import HANGING_S

BUILD = FOLDER.parents[2] / "build"
PACKAGES = BUILD / "rocketmq-python-client"  # mypy does not check this folder
OLDEST_PACKAGES = BUILD / f"rocketmq-python-client-{OLDEST_PYTHON}"
INSTALL_S = 1_200.0
"""Time limit in real seconds; a first build of Rust's takes two minutes on two idle cores."""


class Program(NamedTuple):
    """The command that starts a program, without the program's arguments."""

    command: Sequence[str]
    environment: Mapping[str, str] = {}


class RunningProgram(NamedTuple):
    """A running program and its pipes."""

    process: asyncio.subprocess.Process
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader

    async def line(self) -> str:
        """Return the next line that it prints; an empty one at its end."""
        return (await self.stdout.readline()).decode().strip()


@asynccontextmanager
async def running(program: Program, home: Path, *arguments: str) -> AsyncIterator[RunningProgram]:
    """Run the program, and kill it at the end if it still runs. A failure quotes its stderr."""
    with (home / "errors").open("w+b") as errors:
        process = await asyncio.create_subprocess_exec(
            *(*program.command, *arguments),
            env=os.environ | program.environment,
            stdin=PIPE,
            stdout=PIPE,
            stderr=errors,
        )
        assert process.stdin
        assert process.stdout
        try:
            async with asyncio.timeout(HANGING_S):
                yield RunningProgram(process, process.stdin, process.stdout)
        except (AssertionError, TimeoutError) as error:
            errors.seek(0)
            error.add_note(errors.read().decode()[-4_000:])
            raise
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def python(source: Path, home: Path) -> Program:
    """Run with ``rocketmq-python-client``, installed apart from this environment, because it needs grpcio."""
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
"""Functions that build a program from its source and a home for logs, by client name on the page."""

SCENARIOS = {
    "python-grpc": "python/scenario.py",
    "java-5.0-grpc": "java/src/Scenario.java",
    "java-5.2-grpc": "java/src/Scenario.java",
    "node-grpc": "node/scenario.js",
    "go-grpc": "go/main.go",
    "rust-grpc": "rust/src/main.rs",
}
"""Program of each client that acts as an application."""

LITE = {
    "java-5.2-grpc": "java/src/Lite.java",
    "python-grpc": "python/lite.py",
    "node-grpc": "node/lite.js",
    "go-grpc": "go/lite/main.go",
}
"""Program of each client that sends to lite topics and consumes them, as the lines of stdin say."""

PRIORITIES = {
    "java-5.2-grpc": "java/src/Priorities.java",
    "python-grpc": "python/priorities.py",
    "node-grpc": "node/priorities.js",
    "go-grpc": "go/priorities/main.go",
}
"""Program of each client that sends and receives priorities."""
LOWEST_PRIORITY = {"node-grpc": 1}
"""Lowest priority of clients that cannot send 0: Node's takes it for no priority."""

LEAVING: Mapping[str, tuple[Callable[[Path, Path], Program], str]] = {
    "java-5.0-grpc": (SDKS["java-5.0-grpc"], "java/src/Leaving.java"),
    "java-5.2-grpc": (SDKS["java-5.2-grpc"], "java/src/Leaving.java"),
    "node-grpc": (node, "node/leaving.js"),
    "go-grpc": (go, "go/leaving/main.go"),
    "python-5.0-grpc": (oldest_python, "python/leaving.py"),
    "python-grpc": (python, "python/leaving.py"),
}
"""Build and source of each client's program that closes it while it works.

The list has the oldest and the newest client of Java and Python, and the newest of Node and Go. In Rust, a
client that sends or receives cannot be closed, because ``shutdown`` takes it by value.
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
