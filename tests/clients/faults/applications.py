"""Applications of each client behind one interface: they send, and record messages and errors."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mocketmq import Client
from tests.clients.go import building as go_building
from tests.clients.go import versions as go_versions
from tests.clients.grpc.programs import SDKS
from tests.clients.java.building import build, java_command
from tests.clients.java_sdk import open_java_sdk
from tests.clients.node_sdk import NodeError, install, open_node_sdk
from tests.clients.python_sdk import open_python_sdk
from tests.clients.remoting.driver import NODE, PYTHON, ClientError, Driver, running_driver
from tests.clients.sdk import Account, Outgoing, RefusedError, Sdk
from tests.support.grpc import touch
from tests.support.process import BrokerProcess

GROUP = "GID_faults"
SEND_TIMEOUT_MS = 3_000
"""Default send timeout of each remoting client, in milliseconds. Most drivers use a longer timeout."""
JAVA_DRIVER = "rocketmq.RocketmqDriver"
ONE_THREAD = {"threads": 1}
"""Option of clients that consume with many threads, which take messages in order but report them in any."""
HERE = Path(__file__).parent


class Application(ABC):
    """An application. ``problems`` has the errors raised while it received."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    @abstractmethod
    async def send(self, topic: str, body: str) -> str:
        """Send with the client's defaults, and return the status. Raises the client's error."""

    @abstractmethod
    async def consume(self, topic: str) -> None:
        """Receive and acknowledge messages from now on."""

    @abstractmethod
    async def next(self) -> str:
        """Return the body of the next message received."""

    @abstractmethod
    async def close(self) -> None:
        """Stop receiving, if the client would retry without pause during an outage."""


class Driven(Application):
    """An application in its own process, controlled through a driver."""

    def __init__(self, driver: Driver, **consuming: object) -> None:
        super().__init__()
        self.problems = driver.problems
        self.driver = driver
        self._consuming = consuming

    async def send(self, topic: str, body: str) -> str:
        return str((await self.driver.call("send", topic=topic, body=body))["status"])

    async def consume(self, topic: str) -> None:
        await self.driver.call("consume", group=GROUP, topic=topic, **self._consuming)

    async def next(self) -> str:
        return (await self.driver.next(GROUP)).body

    async def close(self) -> None:
        pass


class Polling(Application):
    """An application that receives in its own loop, as with Aliyun's protocol and the JSON API."""

    def __init__(
        self,
        publish: Callable[[str, str], Awaitable[Any]],
        take: Callable[[str], Awaitable[list[str]]],
    ) -> None:
        super().__init__()
        self._publish = publish
        self._take = take
        self._bodies: asyncio.Queue[str] = asyncio.Queue()
        self._polling: asyncio.Task[None] | None = None

    async def send(self, topic: str, body: str) -> str:
        await self._publish(topic, body)
        return "SEND_OK"

    async def consume(self, topic: str) -> None:
        self._polling = asyncio.create_task(self._poll(topic))

    async def _poll(self, topic: str) -> None:
        while True:
            try:
                for body in await self._take(topic):
                    self._bodies.put_nowait(body)
            except Exception as error:  # noqa: BLE001 - an application goes on, whatever it is
                self.problems.append(text_of(error))

    async def next(self) -> str:
        return await self._bodies.get()

    async def close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.wait([self._polling])


def text_of(error: Exception) -> str:
    """Return the text of an error; drivers pass on the texts of their libraries."""
    text = str(error)
    is_from_driver = isinstance(error, RefusedError | ClientError | NodeError)
    return text if is_from_driver else f"{type(error).__name__}: {text}"


def with_sdk(sending: Sdk, receiving: Sdk) -> Polling:
    """Open an application with one of Aliyun's clients."""

    async def take(topic: str) -> list[str]:
        messages = await receiving.take(topic, GROUP, wait_s=5)
        if messages:
            await receiving.acknowledge(topic, GROUP, [message.handle for message in messages])
        return [message.body for message in messages]

    return Polling(lambda topic, body: sending.publish(topic, Outgoing(body=body)), take)


def with_json_api(client: Client) -> Polling:
    """Open an application with mocketmq's own client."""

    async def take(topic: str) -> list[str]:
        messages = await client.receive(topic, group=GROUP, wait="5s", max_messages=16)
        if messages:
            await client.acknowledge(GROUP, messages)
        return [str(message["body"]) for message in messages]

    return Polling(client.send, take)


Open = Callable[[AsyncExitStack, BrokerProcess, Path], Awaitable[Application]]


class Tried(NamedTuple):
    """A client in the table: its protocol, its name for users, and how to build and start its application."""

    door: str
    title: str
    build: Callable[[], None]
    open: Open


def _address(process: BrokerProcess) -> str:
    return "{}:{}".format(*process.name_server)


def with_java(client: str, *main: str) -> Open:
    """Open an application with a Java client over remoting, by this main class and its flags."""

    async def opened(stack: AsyncExitStack, process: BrokerProcess, home: Path) -> Application:
        command = (*java_command(client, home), *main)
        driver = running_driver(command, home, name_server=_address(process), send_timeout_ms=SEND_TIMEOUT_MS)
        return Driven(await stack.enter_async_context(driver), **ONE_THREAD)

    return opened


async def _go(stack: AsyncExitStack, process: BrokerProcess, home: Path) -> Application:
    program = go_versions.FOLDER / "build" / "driver"
    driver = running_driver((str(program),), home, name_server=_address(process))
    return Driven(await stack.enter_async_context(driver), **ONE_THREAD)


async def _python(stack: AsyncExitStack, process: BrokerProcess, home: Path) -> Application:
    options = {"name_server": _address(process), "send_timeout_ms": SEND_TIMEOUT_MS}
    driver = running_driver(PYTHON, home, **options)
    return Driven(await stack.enter_async_context(driver), **ONE_THREAD)


async def _node(stack: AsyncExitStack, process: BrokerProcess, home: Path) -> Application:
    options = {"nameSrv": _address(process), "send_timeout_ms": SEND_TIMEOUT_MS}
    driver = await stack.enter_async_context(running_driver(NODE, home, **options))
    hurry = {"rebalanceInterval": 100, "pullTimeDelayMillsWhenException": 100}
    return Driven(driver, more=hurry)


def _aliyun(open_sdk: Callable[[Account], Any]) -> Open:
    async def opened(stack: AsyncExitStack, process: BrokerProcess, home: Path) -> Application:  # noqa: ARG001
        account = Account(process.url)
        sending, receiving = [await stack.enter_async_context(open_sdk(account)) for _ in range(2)]
        return with_sdk(sending, receiving)

    return opened


async def _aliyun_java(stack: AsyncExitStack, process: BrokerProcess, home: Path) -> Application:
    command = (*java_command("http-java", home), "http.HttpDriver")
    account, driver = Account(process.url), await stack.enter_async_context(running_driver(command, home))
    sending, receiving = [await stack.enter_async_context(open_java_sdk(driver, account)) for _ in range(2)]
    return with_sdk(sending, receiving)


async def _json(stack: AsyncExitStack, process: BrokerProcess, home: Path) -> Application:  # noqa: ARG001
    return with_json_api(await stack.enter_async_context(Client(process.url)))


def with_grpc(client: str, source: str) -> Open:
    """Open an application over gRPC, whose driver has its source in this folder."""

    async def opened(stack: AsyncExitStack, process: BrokerProcess, home: Path) -> Application:
        async with Client(process.url) as control:
            address = (await control.info())["doors"]["grpc"]["address"]
        await touch(address)
        program = await asyncio.to_thread(SDKS[client], HERE / source, home)
        environment = [f"{name}={value}" for name, value in program.environment.items()]
        command = ("env", *environment, *program.command)
        driver = running_driver(command, home, address=address, group=GROUP)
        return Driven(await stack.enter_async_context(driver))

    return opened


def _nothing() -> None:
    pass


def _build_go() -> None:
    go_building.build(".", go_versions.FOLDER / "build" / "driver")


CLIENTS: dict[str, Tried] = {
    "java-4.9": Tried("remoting", "Java `rocketmq-client`", build, with_java("java-4.9", JAVA_DRIVER)),
    "java-5.5": Tried("remoting", "Java `rocketmq-client`", build, with_java("java-5.5", JAVA_DRIVER)),
    "go": Tried("remoting", "Go `rocketmq-client-go`", _build_go, _go),
    "python": Tried("remoting", "Python (C++) `rocketmq`", _nothing, _python),
    "node": Tried("remoting", "Node `ali-ons`", install, _node),
    "http-python": Tried("aliyun", "Python `mq_http_sdk`", _nothing, _aliyun(open_python_sdk)),
    "http-node": Tried("aliyun", "Node `@aliyunmq/mq-http-sdk`", install, _aliyun(open_node_sdk)),
    "http-java": Tried("aliyun", "Java `mq-http-sdk`", build, _aliyun_java),
    "json": Tried("http", "Python `mocketmq.Client`", _nothing, _json),
    "python-grpc": Tried(
        "grpc", "Python `rocketmq-python-client`", _nothing, with_grpc("python-grpc", "grpc_driver.py")
    ),
    "node-grpc": Tried(
        "grpc", "Node `rocketmq-client-nodejs`", _nothing, with_grpc("node-grpc", "grpc_driver.js")
    ),
    "java-5.2-grpc": Tried(
        "grpc", "Java `rocketmq-client-java`", _nothing, with_grpc("java-5.2-grpc", "GrpcDriver.java")
    ),
}
"""Clients in the order of the tables."""


@asynccontextmanager
async def open_application(client: str, process: BrokerProcess, home: Path) -> AsyncIterator[Application]:
    """Open an application with this client, connected to the broker."""
    async with AsyncExitStack() as stack:
        application = await CLIENTS[client].open(stack, process, home)
        stack.push_async_callback(application.close)
        yield application
