"""A broker for all tests of the Rust client, and a process of the client."""

import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.remoting.conftest import RemotingBroker, broker, home
from tests.clients.remoting.driver import Driver, running_driver
from tests.clients.rust.versions import FOLDER

__all__ = ["broker", "home"]

BUILD_S = 1_200.0
"""Real seconds; a first build takes two minutes on two idle cores."""
_BUILT = FOLDER.parents[2] / "build" / "rust"


def build(program: str, package: Path = FOLDER) -> Path:
    """Build a program of a package; what is unchanged since the last time is there."""
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("needs Cargo")
    done = subprocess.run(
        [cargo, "build", "--locked", "--bin", program, "--target-dir", _BUILT],
        check=False,
        cwd=package,
        timeout=BUILD_S,
        text=True,
        capture_output=True,
    )
    if done.returncode:
        pytest.fail(f"cargo build failed:\n{done.stdout}{done.stderr}")
    return _BUILT / "debug" / program


@pytest.fixture(scope="session")
def rust_client() -> tuple[str, ...]:
    """How to run the client's driver."""
    return (str(build("driver")),)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def rust(broker: RemotingBroker, home: Path, rust_client: tuple[str, ...]) -> AsyncIterator[Driver]:
    """The client, connected to the broker."""
    async with running_driver(rust_client, home, name_server=broker.name_server) as driver:
        yield driver
