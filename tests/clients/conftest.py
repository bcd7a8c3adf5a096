"""The SDKs, a broker for all tests, and the record of which conformance point and which feature passed."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import NamedTuple
from uuid import uuid4

import aiohttp
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
from tests.support.patience import HANGING_S
from tests.support.process import forked_broker

RESULTS = pytest.StashKey[Results]()
FEATURES = pytest.StashKey[Results]()

Open = Callable[[Account], AbstractAsyncContextManager[Sdk]]
OpenNode = Callable[[Account], AbstractAsyncContextManager[NodeSdk]]
OpenJava = Callable[[Account], AbstractAsyncContextManager[JavaSdk]]


class Broker(NamedTuple):
    """A broker in a process of its own, whose clock stands still until it is moved, unless it is real."""

    url: str
    control: Client

    async def now_ms(self) -> int:
        """What time it is there."""
        now_ms: int = (await self.control.clock())["now_ms"]
        return now_ms

    async def due_ms(self, topic: str) -> int:
        """When the topic's only pending message is due."""
        [message] = (await self.control.delayed(topic=topic))["messages"]
        due_ms: int = message["due_ms"]
        return due_ms

    async def long_polls(self, count: int) -> None:
        """Wait until so many consumers wait."""
        wanted = f"mocketmq_long_polls {count:.1f}\n"
        async with asyncio.timeout(HANGING_S), aiohttp.ClientSession() as session:
            while True:
                async with session.get(f"{self.url}/metrics") as response:
                    if wanted in await response.text():
                        return


@asynccontextmanager
async def running_broker(*options: str, clock: str = "manual") -> AsyncIterator[Broker]:
    """A broker of a test's own, with settings of its own."""
    async with forked_broker("--clock", clock, *options) as process, Client(process.url) as control:
        yield Broker(process.url, control)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def broker() -> AsyncIterator[Broker]:
    """One for all tests, whose clock they move on."""
    async with running_broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def open_node() -> OpenNode:
    """Open a client for Node, which is installed first."""
    node_sdk.install()
    return open_node_sdk


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def open_java(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OpenJava]:
    """Open a client for Java, whose driver is built first."""
    build()
    home = tmp_path_factory.mktemp("home")
    async with running_driver((*java_command("http-java", home), "http.HttpDriver"), home) as driver:
        yield partial(open_java_sdk, driver)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Try a test with each SDK that its point is about."""
    if "open_sdk" in metafunc.fixturenames:
        sdks = compatibility.sdks_of(next(metafunc.definition.iter_markers("point")))
        marks = {"java": [pytest.mark.interop]}
        metafunc.parametrize(
            "open_sdk", [pytest.param(sdk, marks=marks.get(sdk, [])) for sdk in sdks], indirect=True
        )


@pytest.fixture
def open_sdk(request: pytest.FixtureRequest) -> Open:
    """Open a client of the library that the test is tried with."""
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
    """A topic that no other test knows."""
    return f"orders-{uuid4().hex[:12]}"


def pytest_configure(config: pytest.Config) -> None:
    """Tests say which conformance point they are about, and for which SDK if they are about one only."""
    config.addinivalue_line("markers", "point(name, *sdks): a conformance point for docs/aliyun-clients.md")
    config.addinivalue_line("markers", "feature(row, *clients): a feature for docs/compatibility.md")
    config.addinivalue_line("markers", "mqadmin(*commands, only): commands for docs/compatibility.md")
    config.stash[RESULTS], config.stash[FEATURES] = {}, {}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks must name rows and columns of the page."""
    for mark in item.iter_markers("feature"):
        if wrong := features.misuse(mark):
            raise pytest.UsageError(f"{item.nodeid}: {wrong}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A point is held if each of its tests passes. Nothing is known of one that was skipped."""
    report = yield
    known = report.failed or (report.when == "call" and not report.skipped)
    for client, row in features.shown_by(item) if known else ():
        note(item.config.stash[FEATURES], client, row, report.passed)
    for sdk, point in compatibility.shown_by(item) if known else ():
        note(item.config.stash[RESULTS], sdk, point, report.passed)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave the results for ``python -m tests.clients.compatibility``."""
    save(compatibility.SAVED, session.config.stash[RESULTS])
    save(features.SAVED, session.config.stash[FEATURES])
