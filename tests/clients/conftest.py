"""The SDKs, a broker for all tests, and the results for each conformance point and feature."""

from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import NamedTuple
from uuid import uuid4

import pytest
import pytest_asyncio

from mocketmq import Client
from tests.clients import compatibility, features, node_sdk
from tests.clients.java.building import build, java_command
from tests.clients.java_sdk import JavaSdk, open_java_sdk
from tests.clients.node_sdk import NodeSdk, open_node_sdk
from tests.clients.python_sdk import open_python_sdk
from tests.clients.remoting.driver import running_driver
from tests.clients.results import Results, note, save
from tests.clients.sdk import Account, Sdk
from tests.support.process import forked_broker
from tests.support.waiting import metric_reaches

RESULTS = pytest.StashKey[Results]()
FEATURES = pytest.StashKey[Results]()

Open = Callable[[Account], AbstractAsyncContextManager[Sdk]]
OpenNode = Callable[[Account], AbstractAsyncContextManager[NodeSdk]]
OpenJava = Callable[[Account], AbstractAsyncContextManager[JavaSdk]]


class Broker(NamedTuple):
    """A broker in its own process, by default with a manual clock."""

    url: str
    control: Client

    async def now_ms(self) -> int:
        """Return the broker's time in milliseconds."""
        now_ms: int = (await self.control.clock())["now_ms"]
        return now_ms

    async def due_ms(self, topic: str) -> int:
        """Return the due time of the topic's only pending message."""
        [message] = (await self.control.delayed(topic=topic))["messages"]
        due_ms: int = message["due_ms"]
        return due_ms

    async def long_polls(self, count: int) -> None:
        """Wait until this many consumers wait."""
        await metric_reaches(self.url, "mocketmq_long_polls", count)


@asynccontextmanager
async def running_broker(*options: str, clock: str = "manual") -> AsyncIterator[Broker]:
    """Run a broker with its own settings."""
    async with forked_broker("--clock", clock, *options) as process, Client(process.url) as control:
        yield Broker(process.url, control)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def broker() -> AsyncIterator[Broker]:
    """A broker shared by all tests, which move its clock."""
    async with running_broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def open_node() -> OpenNode:
    """Install and open a client for Node."""
    node_sdk.install()
    return open_node_sdk


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def open_java(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OpenJava]:
    """Build the driver of a client for Java, and open the client."""
    build()
    home = tmp_path_factory.mktemp("home")
    async with running_driver((*java_command("http-java", home), "http.HttpDriver"), home) as driver:
        yield partial(open_java_sdk, driver)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with each SDK of its point."""
    if "open_sdk" in metafunc.fixturenames:
        sdks = compatibility.sdks_of(next(metafunc.definition.iter_markers("point")))
        marks = {"java": [pytest.mark.interop]}
        metafunc.parametrize(
            "open_sdk", [pytest.param(sdk, marks=marks.get(sdk, [])) for sdk in sdks], indirect=True
        )


@pytest.fixture
def open_sdk(request: pytest.FixtureRequest) -> Open:
    """Open a client of the SDK under test."""
    if request.param == "python":
        return open_python_sdk
    opener: Open = request.getfixturevalue(f"open_{request.param}")
    return opener


@pytest.fixture
def open_other_sdk(open_sdk: Open, open_node: OpenNode) -> Open:
    """Open a client of another library."""
    return open_node if open_sdk is open_python_sdk else open_python_sdk


@pytest_asyncio.fixture(loop_scope="session")
async def sdk(broker: Broker, open_sdk: Open) -> AsyncIterator[Sdk]:
    """A client of the broker."""
    async with open_sdk(Account(broker.url)) as sdk:
        yield sdk


@pytest.fixture
def topic() -> str:
    """A topic that only this test uses."""
    return f"orders-{uuid4().hex[:12]}"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks for conformance points, which may name one SDK."""
    config.addinivalue_line("markers", "point(name, *sdks): a conformance point for docs/aliyun-clients.md")
    config.addinivalue_line("markers", "feature(row, *clients): a feature for docs/compatibility.md")
    config.addinivalue_line("markers", "mqadmin(*commands, only): commands for docs/compatibility.md")
    config.stash[RESULTS], config.stash[FEATURES] = {}, {}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Check that marks name rows and columns of the page."""
    for mark in item.iter_markers("feature"):
        if wrong := features.misuse(mark):
            raise pytest.UsageError(f"{item.nodeid}: {wrong}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record results: a point holds if each of its tests passes; skipped tests do not count."""
    report = yield
    known = report.failed or (report.when == "call" and not report.skipped)
    for client, row in features.shown_by(item) if known else ():
        note(item.config.stash[FEATURES], client, row, report.passed)
    for sdk, point in compatibility.shown_by(item) if known else ():
        note(item.config.stash[RESULTS], sdk, point, report.passed)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Save the results for ``python -m tests.clients.compatibility``."""
    save(compatibility.SAVED, session.config.stash[RESULTS])
    save(features.SAVED, session.config.stash[FEATURES])
