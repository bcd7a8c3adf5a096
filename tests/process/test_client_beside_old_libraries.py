"""mocketmq-client from a package index, in an application's environment with old libraries."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from mocketmq import __version__
from tests.support.process import clean_environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
OLD = ("django==3.2.25", "sqlalchemy==1.4.54", "aiohttp==3.8.6", "pytest==7.4.4")

TESTS = """
import asyncio
from datetime import datetime, timedelta, timezone

import aiohttp, django, pytest, sqlalchemy
from mocketmq import BrokerError, Client, InvalidArgumentError


def test_the_libraries_are_the_old_ones():
    found = django.__version__, sqlalchemy.__version__, aiohttp.__version__, pytest.__version__
    assert found == ("3.2.25", "1.4.54", "3.8.6", "7.4.4")


def test_the_fixture(mocketmq):
    mocketmq.create_topic("orders", type="delay")
    mocketmq.send("orders", "late", delay=timedelta(minutes=30))
    assert mocketmq.clock.advance("29m59s")["fired"] == 0
    mocketmq.clock.advance(timedelta(seconds=1))
    [message] = mocketmq.receive("orders", group="g", wait="1s")
    assert message["body"] == "late"
    mocketmq.clock.to("2050-01-31T08:00:00.5Z")
    assert mocketmq.clock.now() == datetime(2050, 1, 31, 8, 0, 0, 500_000, timezone.utc)
    with pytest.raises(BrokerError, match="wait is '60s'; allowed: a duration from 0 to 30s, the most that"):
        mocketmq.wait_sent("orders", wait="60s")
    with pytest.raises(InvalidArgumentError, match="wait is '60'; allowed: a duration such as"):
        mocketmq.wait_sent("orders", wait="60")


def test_the_clients_for_asyncio(mocketmq, mocketmq_async):
    async def main():
        async with Client(mocketmq.http_url) as client:
            waiting = asyncio.ensure_future(mocketmq_async.receive("orders", group="g", wait="30s"))
            await client.send("orders", "soon")
            return await waiting

    [message] = asyncio.run(main())
    assert message["body"] == "soon"


def test_a_broker_in_this_process():
    with pytest.raises(ImportError, match="mocketmq.running_emulator needs the broker, which is not"):
        from mocketmq import running_emulator


def test_fails(mocketmq):
    mocketmq.send("orders", "seen")
    mocketmq.assert_delivered("orders", 2, wait="0")
"""


def run(*command: object, cwd: Path, path: Path, **env: str) -> str:
    """Run a command whose PATH has only this folder and the system's, and return its output."""
    environ = clean_environment() | {"PATH": f"{path}:/usr/bin:/bin"} | env
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=environ,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout
    return done.stdout


def interpreter(version: str) -> str:
    """Return a Python of this version, from the PATH, from pyenv, or downloaded by uv."""
    of_pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for found in (shutil.which(f"python{version}"), *of_pyenv.glob(f"{version}.*/bin/python")):
        if found and not subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
            return str(found)
    return version


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    for source in (ROOT, ROOT / "kits" / "python"):
        build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder)
        subprocess.run(build, cwd=source, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of uv."""
    folder = tmp_path_factory.mktemp("tools")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin" / "pip", "install", "--quiet", "uv"], check=True)
    return folder / "bin"


@pytest.mark.parametrize("python", ["3.9", "3.11"])
def test_it_changes_nothing_and_its_fixture_works(
    python: str, wheels: Path, tools: Path, tmp_path: Path
) -> None:
    application, uv = tmp_path / "application", tools / "uv"
    subprocess.run(
        [uv, "venv", "--quiet", "--no-config", "--python", interpreter(python), application], check=True
    )

    def pip(*arguments: object) -> str:
        there = ("--quiet", "--no-config", "--python", application / "bin" / "python")
        return run(uv, "pip", *arguments, *there, cwd=tmp_path, path=tools)

    pip("install", *OLD)
    before = pip("freeze")
    pip("install", wheels / f"mocketmq_client-{__version__}-py3-none-any.whl")
    added = [line for line in pip("freeze").splitlines() if line not in before.splitlines()]
    assert [line.partition(" ")[0] for line in added] == ["mocketmq-client"]

    (tmp_path / "test_it.py").write_text(TESTS)
    on_path = tmp_path / "bin"
    on_path.mkdir()
    (on_path / "mocketmq").symlink_to(Path(sys.executable).with_name("mocketmq"))
    pytest_there = (application / "bin" / "pytest", "-q")
    told = run(*pytest_there, cwd=tmp_path, path=on_path)
    assert "1 failed, 4 passed" in told, told
    assert "sent to orders by http" in told
    assert "wanted exactly 2" in told

    # The broker is neither on the PATH nor in this environment, so the client creates an environment.
    install = f"mocketmq_install=--find-links {wheels} mocketmq"
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    told = run(*pytest_there, "-k", "fixture", "-o", install, cwd=tmp_path, path=tools, **cache)
    assert "1 passed" in told, told
    assert pip("freeze").splitlines() == [*sorted([*before.splitlines(), *added])]


def test_both_may_be_in_one_environment(wheels: Path, tools: Path, tmp_path: Path) -> None:
    """The broker's distribution installs the clients', which stays when the broker's is removed."""
    folder, uv = tmp_path / "both", tools / "uv"
    there: Mapping[str, str] = {"UV_NO_CONFIG": "1"}
    run(uv, "venv", "--quiet", "--python", sys.executable, folder, cwd=tmp_path, path=tools, **there)
    python = ("--quiet", "--python", folder / "bin" / "python")
    run(uv, "pip", "install", *python, "--find-links", wheels, "mocketmq", cwd=tmp_path, path=tools, **there)
    assert (
        run(folder / "bin" / "mocketmq", "--version", cwd=tmp_path, path=tools)
        == f"mocketmq {__version__}, not compiled\n"
    )
    run(uv, "pip", "uninstall", *python, "mocketmq", cwd=tmp_path, path=tools, **there)
    use = "import mocketmq.testing.broker; from mocketmq import BlockingClient; print(mocketmq.__version__)"
    told = run(folder / "bin" / "python", "-c", use, cwd=tmp_path, path=tools)
    assert told == f"{__version__}\n"
