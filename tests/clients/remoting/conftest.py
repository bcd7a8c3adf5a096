"""A broker for all tests of remoting clients, and a process of each client library."""

import asyncio
import platform
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from mocketmq import Client
from tests.clients import node_sdk
from tests.clients.remoting.driver import NODE, PYTHON, WAIT_S, Driver, running_driver
from tests.support.process import forked_broker


class RemotingBroker(NamedTuple):
    """A broker in its own process, with a manual clock."""

    url: str
    name_server: str
    control: Client
    host: str
    port: int

    @property
    def address(self) -> str:
        """``host:port`` of the broker itself, not of its name server."""
        return f"{self.host}:{self.port}"

    async def pending(self, topic: str, count: int = 1) -> list[int]:
        """Wait until the topic has ``count`` pending messages, and return their due times in milliseconds."""
        async with asyncio.timeout(WAIT_S):
            while len(waiting := (await self.control.delayed(topic=topic))["messages"]) < count:
                pass
        return [message["due_ms"] for message in waiting]

    async def consumer_of(self, group: str) -> str:
        """Wait until the broker knows the group's only client, and return the client's id."""
        async with asyncio.timeout(WAIT_S):
            while True:
                for client in await self.control.clients():
                    if group in {one["group"] for one in client["consumer_groups"]}:
                        return str(client["client_id"])


@asynccontextmanager
async def running_remoting_broker(*options: str) -> AsyncIterator[RemotingBroker]:
    """Run a broker with its own settings."""
    async with forked_broker("--clock", "manual", *options) as process, Client(process.url) as control:
        host, port = process.name_server
        yield RemotingBroker(process.url, f"{host}:{port}", control, host, process.broker_port)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def broker() -> AsyncIterator[RemotingBroker]:
    """A broker shared by all tests, which move its clock."""
    async with running_remoting_broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the libraries' logs."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def python_client() -> tuple[str, ...]:
    """Command for the Python library's driver; requirements-dev.lock has the library if it can be built."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("needs Linux on x86-64")
    return PYTHON


@pytest.fixture(scope="session")
def node_client() -> tuple[str, ...]:
    """Install the Node library, and return the command that runs its driver."""
    node_sdk.install()
    return NODE


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def python(broker: RemotingBroker, home: Path, python_client: tuple[str, ...]) -> AsyncIterator[Driver]:
    """The Python library, connected to the broker."""
    async with running_driver(python_client, home, name_server=broker.name_server) as driver:
        yield driver


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def node(broker: RemotingBroker, home: Path, node_client: tuple[str, ...]) -> AsyncIterator[Driver]:
    """The Node library, connected to the broker."""
    async with running_driver(node_client, home, nameSrv=broker.name_server) as driver:
        yield driver
        assert driver.problems == []


@pytest.fixture(params=["python", "node"])
def client(request: pytest.FixtureRequest) -> str:
    """The library under test, by its name in ``features``."""
    name: str = request.param
    return name


@pytest.fixture
def driver(request: pytest.FixtureRequest, client: str) -> Driver:
    """The library under test, connected to the broker."""
    driver: Driver = request.getfixturevalue(client)
    return driver


@pytest.fixture
def hurry(client: str) -> dict[str, Any]:
    """Faster timers for a library that rebalances every ten seconds, and pauses three after errors."""
    timers = {"rebalanceInterval": 100, "pullTimeDelayMillsWhenException": 100}
    return {"more": timers} if client == "node" else {}
