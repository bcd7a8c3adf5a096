"""A broker for all tests of the clients for Go and Rust, and a process of each client."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.go import building as go_building
from tests.clients.go import versions as go_versions
from tests.clients.remoting.conftest import RemotingBroker, broker, driver, home
from tests.clients.remoting.driver import Driver, running_driver
from tests.clients.rust import building as rust_building

__all__ = ["broker", "driver", "home"]


@pytest.fixture(scope="session")
def go_client() -> tuple[str, ...]:
    """Command that runs the driver of the Go client."""
    program = go_versions.FOLDER / "build" / "driver"
    go_building.build(".", program)
    return (str(program),)


@pytest.fixture(scope="session")
def rust_client() -> tuple[str, ...]:
    """Command that runs the driver of the Rust client."""
    return (str(rust_building.build("driver")),)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def go(broker: RemotingBroker, home: Path, go_client: tuple[str, ...]) -> AsyncIterator[Driver]:
    """The Go client, connected to the broker."""
    async with running_driver(go_client, home, name_server=broker.name_server) as driver:
        yield driver


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def rust(broker: RemotingBroker, home: Path, rust_client: tuple[str, ...]) -> AsyncIterator[Driver]:
    """The Rust client, connected to the broker."""
    async with running_driver(rust_client, home, name_server=broker.name_server) as driver:
        yield driver


@pytest.fixture(params=["go", "rust"])
def client(request: pytest.FixtureRequest) -> str:
    """The client under test, by its name on the compatibility page."""
    name: str = request.param
    return name


@pytest.fixture
def command(request: pytest.FixtureRequest, client: str) -> tuple[str, ...]:
    """Command that runs the client's driver."""
    command: tuple[str, ...] = request.getfixturevalue(f"{client}_client")
    return command


@pytest_asyncio.fixture(loop_scope="session")
async def single(broker: RemotingBroker, topic: str) -> str:
    """A topic with one queue, whose messages arrive in order."""
    await broker.control.put_topic(topic, read_queues=1, write_queues=1)
    return topic
