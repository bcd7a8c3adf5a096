"""Builds and runs Spring applications that no registry has, from one commit of their source."""

import asyncio
import re
import shutil
import subprocess
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients.java.building import project_command
from tests.support.patience import HANGING_S

FETCH_S, BUILD_S = 120.0, 900.0
START_S = HANGING_S
"""Time limit in real seconds for Spring to start on a busy machine."""

_LISTENS = re.compile(rb"Tomcat started on port(?:\(s\):)? (\d+)")


class Source(NamedTuple):
    """A commit that the tag named when the test was written, and where to build it."""

    name: str
    repository: str
    """URLs of the repository. Any copy will do, because the commit is checked."""
    tag: str
    commit: str
    folder: Path

    @property
    def project(self) -> Path:
        """Folder of the commit."""
        return self.folder / "target" / self.commit


def build(source: Source) -> None:
    """Fetch and compile the commit if necessary. Skips the test if the repository is out of reach."""
    mvn = shutil.which("mvn")
    if mvn is None or shutil.which("java") is None or shutil.which("git") is None:
        pytest.skip("needs Java, Maven and git")
    built = source.project / "target" / "built"
    if built.exists():
        return
    shutil.rmtree(source.project, ignore_errors=True)
    source.project.mkdir(parents=True)
    _run(source, "git", "init", "--quiet", timeout_s=FETCH_S)
    tag = f"refs/tags/{source.tag}"
    fetched = _run(source, "git", "fetch", "--quiet", "--depth=1", source.repository, tag, timeout_s=FETCH_S)
    if fetched.returncode:
        pytest.skip(f"the source of {source.name} cannot be had from {source.repository}: {fetched.stdout}")
    checked_out = _run(source, "git", "checkout", "--quiet", source.commit, timeout_s=FETCH_S)
    assert checked_out.returncode == 0, f"{source.tag} is another commit now: {checked_out.stdout}"
    plugins = "org.apache.maven.plugins:maven-"
    done = _run(
        source,
        *(mvn, "--batch-mode", "--quiet"),
        f"{plugins}resources-plugin:3.3.1:resources",
        f"{plugins}compiler-plugin:3.11.0:compile",
        f"{plugins}dependency-plugin:3.8.1:copy-dependencies",
        *("-DincludeScope=runtime", "-DoutputDirectory=target/lib"),
        timeout_s=BUILD_S,
    )
    if done.returncode:
        pytest.fail(f"Maven failed:\n{done.stdout}")
    built.touch()


@asynccontextmanager
async def running(source: Source, home: Path, main: str, *options: str) -> AsyncIterator[str]:
    """Run the built application, and return its URL."""
    command = (*project_command(source.project, home), main, "--server.port=0", *options)
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT)
    reading: asyncio.Task[bytes] | None = None
    try:
        port = await _port(source, process)
        assert process.stdout
        reading = asyncio.create_task(process.stdout.read())  # otherwise a full pipe would block the process
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if reading is not None:
            await reading


def _run(source: Source, *command: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, check=False, cwd=source.project, timeout=timeout_s, text=True, stdout=PIPE, stderr=STDOUT
    )


async def _port(source: Source, process: Process) -> int:
    """Wait until the application has a port."""
    assert process.stdout
    log = []
    async with asyncio.timeout(START_S):
        async for line in process.stdout:
            log.append(line)
            if found := _LISTENS.search(line):
                return int(found[1])
    pytest.fail(f"{source.name} has not started:\n{b''.join(log).decode()}")
