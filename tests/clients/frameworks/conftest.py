"""A shop on each framework, each in its own process and with its own broker."""

from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest
import pytest_asyncio

from mocketmq import Client
from tests.clients.frameworks.versions import FOLDER, PROJECTS
from tests.clients.java.building import build, project_command
from tests.clients.remoting.conftest import RemotingBroker, running_remoting_broker
from tests.clients.remoting.driver import Driver, running_driver


class Shop(NamedTuple):
    """A shop, and its broker with a manual clock."""

    application: Driver
    broker: RemotingBroker

    @property
    def control(self) -> Client:
        """The broker's own client."""
        return self.broker.control

    async def tell(self, call: str, order: str, **more: object) -> object:
        """Call the application, and return its answer."""
        return await self.application.call(call, order=order, **more)

    async def next(self, department: str) -> object:
        """Return the next line of a department's journal."""
        return await self.application.call("next", of=department)

    async def now_ms(self) -> int:
        """Return the broker's time in milliseconds."""
        now_ms: int = (await self.control.clock())["now_ms"]
        return now_ms


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with each framework of its marks."""
    if "client" in metafunc.fixturenames:
        marks = metafunc.definition.iter_markers("feature")
        named = dict.fromkeys(client for mark in marks for client in mark.args[1:])
        metafunc.parametrize("client", list(named), scope="session")


@pytest.fixture(scope="session")
def built() -> None:
    """Build the applications unless they are already built."""
    build(FOLDER)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shop(
    client: str,
    built: None,  # noqa: ARG001
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Shop]:
    """The shop on a framework."""
    home, package = tmp_path_factory.mktemp("home"), PROJECTS[client]
    command = (*project_command(FOLDER / client, home, FOLDER / "src" / package), f"{package}.Shop")
    async with (
        running_remoting_broker() as broker,
        running_driver(command, home, name_server=broker.name_server) as application,
    ):
        yield Shop(application, broker)
