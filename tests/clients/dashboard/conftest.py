"""The RocketMQ Dashboard's back end, built from its source, and a broker that it looks into."""

import asyncio
import os
import re
import shutil
import subprocess
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.clients.remoting.conftest import RemotingBroker, broker

__all__ = ["broker"]

REPOSITORY = os.environ.get("ROCKETMQ_DASHBOARD", "https://github.com/apache/rocketmq-dashboard.git")
"""Maven Central has no Dashboard. Any copy of the repository will do, since the commit is checked."""
TAG, COMMIT = "rocketmq-dashboard-2.1.0", "a013c8fad163122713b0bd2db3d73b3bf0db373e"

SOURCE = Path(__file__).parent / "target" / COMMIT
BUILT = SOURCE / "target" / "built"
FETCH_S, BUILD_S = 120.0, 900.0
START_S = 180.0
"""Real seconds: Spring takes its time on a machine that does other things as well."""
_LISTENS = re.compile(rb"Tomcat started on port (\d+)")


class DashboardError(Exception):
    """What the Dashboard says went wrong."""


class Dashboard:
    """The running back end: its REST calls, as its pages make them."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def get(self, path: str, **query: str | int) -> Any:
        """What a page shows, None if it has nothing yet. Raises DashboardError."""
        return await self._call("GET", path, query, None)

    async def post(self, path: str, body: object = None, **query: str | int) -> Any:
        """What came of a change. Raises DashboardError."""
        return await self._call("POST", path, query, body)

    async def _call(self, method: str, path: str, query: Mapping[str, str | int], body: object) -> Any:
        async with self._session.request(method, self._url + path, params=query, json=body) as response:
            answer = await response.json()
        if answer is None:
            return None
        if answer["status"] != 0:
            raise DashboardError(answer["errMsg"])
        return answer["data"]


def _run(*command: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, check=False, cwd=SOURCE, timeout=timeout_s, text=True, stdout=PIPE, stderr=STDOUT
    )


@pytest.fixture(scope="session")
def classes() -> str:
    """The class path of the back end. Its pages are left out: they need npm, and none of the calls."""
    maven = shutil.which("mvn")
    if maven is None or shutil.which("java") is None or shutil.which("git") is None:
        pytest.skip("needs Java, Maven and git")
    if not BUILT.exists():
        shutil.rmtree(SOURCE, ignore_errors=True)
        SOURCE.mkdir(parents=True)
        _run("git", "init", "--quiet", timeout_s=FETCH_S)
        fetched = _run(
            "git", "fetch", "--quiet", "--depth=1", REPOSITORY, f"refs/tags/{TAG}", timeout_s=FETCH_S
        )
        if fetched.returncode:
            pytest.skip(f"the Dashboard's source cannot be had from {REPOSITORY}: {fetched.stdout}")
        checked_out = _run("git", "checkout", "--quiet", COMMIT, timeout_s=FETCH_S)
        assert checked_out.returncode == 0, f"{TAG} is another commit now: {checked_out.stdout}"
        plugins = "org.apache.maven.plugins:maven-"
        done = _run(
            *(maven, "--batch-mode", "--quiet"),
            f"{plugins}resources-plugin:3.3.1:resources",
            f"{plugins}compiler-plugin:3.11.0:compile",
            f"{plugins}dependency-plugin:3.8.1:copy-dependencies",
            *("-DincludeScope=runtime", "-DoutputDirectory=target/lib"),
            timeout_s=BUILD_S,
        )
        if done.returncode:
            pytest.fail(f"Maven failed:\n{done.stdout}")
        BUILT.touch()
    return f"{SOURCE / 'target' / 'classes'}{os.pathsep}{SOURCE / 'target' / 'lib' / '*'}"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def dashboard(
    broker: RemotingBroker, classes: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Dashboard]:
    """The back end, looking into the broker."""
    home = tmp_path_factory.mktemp("dashboard")
    process = await asyncio.create_subprocess_exec(
        *("java", "-XX:TieredStopAtLevel=1", f"-Duser.home={home}", "-cp", classes),
        "org.apache.rocketmq.dashboard.App",
        "--server.port=0",
        f"--rocketmq.config.namesrvAddrs={broker.name_server}",
        f"--rocketmq.config.dataPath={home}",
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=STDOUT,
    )
    reading: asyncio.Task[bytes] | None = None
    try:
        port = await _port(process)
        assert process.stdout
        reading = asyncio.create_task(process.stdout.read())  # or it would wait for room in the pipe
        async with aiohttp.ClientSession() as session:
            yield Dashboard(f"http://127.0.0.1:{port}", session)
    finally:
        process.kill()
        await process.wait()
        if reading is not None:
            await reading


async def _port(process: asyncio.subprocess.Process) -> int:
    """Where it listens, once it does."""
    assert process.stdout
    log = []
    async with asyncio.timeout(START_S):
        async for line in process.stdout:
            log.append(line)
            if found := _LISTENS.search(line):
                return int(found[1])
    pytest.fail(f"the Dashboard has not started:\n{b''.join(log).decode()}")
