"""A broker for all tests of Java clients, and a process of each client."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.java.building import build, java_command
from tests.clients.java.mqadmin import Mqadmin
from tests.clients.remoting.conftest import RemotingBroker, broker
from tests.clients.remoting.driver import Driver, running_driver

__all__ = ["broker"]


@pytest.fixture(scope="session")
def built() -> None:
    """Build the drivers unless they are already built."""
    build()


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the clients' logs."""
    return tmp_path_factory.mktemp("home")


def rocketmq_driver(
    client: str, home: Path, *flags: str, **options: str
) -> AbstractAsyncContextManager[Driver]:
    """RocketMQ's client, with flags for Java and options of its driver."""
    return running_driver((*java_command(client, home), *flags, "rocketmq.RocketmqDriver"), home, **options)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def java_4_9(broker: RemotingBroker, built: None, home: Path) -> AsyncIterator[Driver]:  # noqa: ARG001
    """RocketMQ's client of 4.9."""
    async with rocketmq_driver("java-4.9", home, name_server=broker.name_server) as driver:
        yield driver


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def java_5_5(broker: RemotingBroker, built: None, home: Path) -> AsyncIterator[Driver]:  # noqa: ARG001
    """RocketMQ's client of 5.5."""
    async with rocketmq_driver("java-5.5", home, name_server=broker.name_server) as driver:
        yield driver


@pytest.fixture(scope="session")
def ons_client(built: None, home: Path) -> tuple[str, ...]:  # noqa: ARG001
    """Command that runs the driver of Aliyun's client."""
    return *java_command("ons-java", home), "ons.OnsDriver"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def ons(broker: RemotingBroker, ons_client: tuple[str, ...], home: Path) -> AsyncIterator[Driver]:
    """Aliyun's client."""
    keys = {"AccessKey": "any key", "SecretKey": "any secret"}
    async with running_driver(ons_client, home, NAMESRV_ADDR=broker.name_server, **keys) as driver:
        yield driver


@asynccontextmanager
async def running_mqadmin(version: str, name_server: str, home: Path) -> AsyncIterator[Mqadmin]:
    """Run RocketMQ's command line in one process for all commands."""
    settings = home / "conf"  # 4.9 reads logback's configuration
    settings.mkdir(exist_ok=True)
    (settings / "logback_tools.xml").write_text("<configuration/>")
    command = (*java_command(version, home), f"-Drocketmq.home.dir={home}", "admin.MqadminDriver")
    async with running_driver(command, home) as driver:
        yield Mqadmin(driver, name_server, version)


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=["mqadmin-4.9", "mqadmin-5.5"])
async def mqadmin(
    request: pytest.FixtureRequest,
    broker: RemotingBroker,
    built: None,  # noqa: ARG001
    home: Path,
) -> AsyncIterator[Mqadmin]:
    """RocketMQ's command line of each version."""
    async with running_mqadmin(request.param, broker.name_server, home) as mqadmin:
        yield mqadmin


@pytest.fixture(params=["java-4.9", "java-5.5"])
def client(request: pytest.FixtureRequest) -> str:
    """The client under test, by its name on the compatibility page."""
    name: str = request.param
    return name


@pytest.fixture
def driver(request: pytest.FixtureRequest, client: str) -> Driver:
    """The client, connected to the broker."""
    driver: Driver = request.getfixturevalue(client.replace("-", "_").replace(".", "_"))
    return driver
