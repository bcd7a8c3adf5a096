"""A broker for all tests of the Go client, and a process of the client."""

import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.go.versions import FOLDER
from tests.clients.remoting.conftest import RemotingBroker, broker
from tests.clients.remoting.driver import Driver, running_driver

__all__ = ["broker"]

BUILD_S = 600.0


def build(made_of: Path | str, into: Path) -> None:
    """Build a program in the module of this folder; what is unchanged comes from Go's own cache."""
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


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the client writes what it does into its user's folder."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def go_client() -> tuple[str, ...]:
    """How to run the client's driver."""
    program = FOLDER / "build" / "driver"
    build(".", program)
    return (str(program),)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def go(broker: RemotingBroker, home: Path, go_client: tuple[str, ...]) -> AsyncIterator[Driver]:
    """The client, connected to the broker."""
    async with running_driver(go_client, home, name_server=broker.name_server) as driver:
        yield driver
