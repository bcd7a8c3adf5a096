"""The clients, with the settings that are tried, and how each sends to the queue of a key."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.clients.faults import applications
from tests.clients.faults.applications import (
    SEND_TIMEOUT_MS,
    Application,
    Driven,
    Tried,
    with_grpc,
    with_java,
)
from tests.clients.java.building import build, java_command
from tests.clients.remoting.driver import Driver, running_driver
from tests.clients.rust import building as rust_building
from tests.support.process import BrokerProcess

Settings = Mapping[str, Any]
"""Arguments for the driver's calls that send, which set up the client."""

DEFAULTS: Final = "defaults"
AVOIDING: Final = "sendLatencyFaultEnable"
"""Setting with which a client avoids slow brokers."""
_JAVA_NO_RETRIES: Final = {"retryTimesWhenSendFailed": 0}
_JAVA: Final = {
    DEFAULTS: {},
    "`retryTimesWhenSendFailed=0`": {"settings": _JAVA_NO_RETRIES},
    "`retryTimesWhenSendFailed=0`, `sendLatencyFaultEnable=true`": {
        "settings": {**_JAVA_NO_RETRIES, "sendLatencyFaultEnable": True}
    },
}
_JAVA_KEYS: Final = {
    DEFAULTS: {},
    "`pollNameServerInterval=1000`": {"settings": {"pollNameServerInterval": 1_000}},
}


async def _ons(stack: AsyncExitStack, process: BrokerProcess, home: Path) -> Application:
    options = {
        "NAMESRV_ADDR": "{}:{}".format(*process.name_server),
        "SendMsgTimeoutMillis": str(SEND_TIMEOUT_MS),
        "AccessKey": "any key",
        "SecretKey": "any secret",
    }
    command = (*java_command("ons-java", home), "ons.OnsDriver")
    return Driven(await stack.enter_async_context(running_driver(command, home, **options)))


def _build_rust() -> None:
    rust_building.build("driver")


async def _rust(stack: AsyncExitStack, process: BrokerProcess, home: Path) -> Application:
    options = {"name_server": "{}:{}".format(*process.name_server), "send_timeout_ms": SEND_TIMEOUT_MS}
    program = await asyncio.to_thread(rust_building.build, "driver")
    return Driven(await stack.enter_async_context(running_driver((str(program),), home, **options)))


class Client(NamedTuple):
    """A client: how it is started, its settings for plain sends and for sends with a key, what it has not.

    ``keyed`` makes the call that sends a message to the queue of a number's key.
    """

    tried: Tried
    sends: Mapping[str, Settings]
    keyed_sends: Mapping[str, Settings]
    keyed: Callable[[int], dict[str, Any]]
    consumes_in_order: bool = True
    has_transactions: bool = True

    @property
    def is_grpc(self) -> bool:
        """Whether the client has one endpoint for all brokers."""
        return self.tried.door == "grpc"


def _by_number(number: int) -> dict[str, Any]:
    return {"call": "send_orderly", "number": number}


def _by_sharding_key(call: str) -> Callable[[int], dict[str, Any]]:
    return lambda number: {"call": call, "sharding_key": f"key {number}"}


def _by_message_group(number: int) -> dict[str, Any]:
    return {"call": "send", "message_group": f"key {number}"}


def _remoting(
    name: str, sends: Mapping[str, Settings], keyed_sends: Mapping[str, Settings], **more: Any
) -> Client:
    return Client(applications.CLIENTS[name], sends, keyed_sends, **more)


def _grpc(name: str, title: str, source: str) -> Client:
    tried = Tried("grpc", title, lambda: None, with_grpc(name, source))
    return Client(tried, {DEFAULTS: {}}, {DEFAULTS: {}}, _by_message_group)


_NODE: Final = {
    DEFAULTS: {},
    "`retryTimesWhenSendFailed: 0`": {"settings": {"retryTimesWhenSendFailed": 0}},
    "`retryTimesWhenSendFailed: 0`, `pollNameServerInteval: 1000`": {
        "settings": {"retryTimesWhenSendFailed": 0, "pollNameServerInteval": 1_000}
    },
}
_OLDEST_JAVA: Final = Tried(
    "remoting",
    "Java `rocketmq-client`",
    build,
    # Netty needs this flag since Java 17.
    with_java("java-4.3", "--add-opens=java.base/java.nio=ALL-UNNAMED", "rocketmq.OldestDriver"),
)

CLIENTS: Final[Mapping[str, Client]] = {
    "java-4.3": Client(_OLDEST_JAVA, {DEFAULTS: {}}, {DEFAULTS: {}}, keyed=_by_number),
    "java-4.9": _remoting("java-4.9", _JAVA, _JAVA_KEYS, keyed=_by_number),
    "java-5.5": _remoting("java-5.5", _JAVA, _JAVA_KEYS, keyed=_by_number),
    "ons-java": Client(
        Tried("remoting", "Java `ons-client`", build, _ons),
        {DEFAULTS: {}},
        {DEFAULTS: {}},
        keyed=_by_sharding_key("send_orderly"),
    ),
    "go": _remoting(
        "go",
        {DEFAULTS: {}, "`WithRetry(0)`": {"retries": 0}},
        {DEFAULTS: {}},
        keyed=_by_sharding_key("send_orderly"),
    ),
    "python": _remoting("python", {DEFAULTS: {}}, {DEFAULTS: {}}, keyed=_by_number, has_transactions=False),
    "node": _remoting(
        "node",
        _NODE,
        {DEFAULTS: {}},
        keyed=_by_sharding_key("send"),
        consumes_in_order=False,
        has_transactions=False,
    ),
    "rust": Client(
        Tried("remoting", "Rust `rocketmq-client-rust`", _build_rust, _rust),
        {DEFAULTS: {}},
        {DEFAULTS: {}},
        keyed=_by_sharding_key("send_orderly"),
    ),
    "java-5.0-grpc": _grpc("java-5.0-grpc", "Java `rocketmq-client-java`", "GrpcDriver.java"),
    "java-5.2-grpc": _grpc("java-5.2-grpc", "Java `rocketmq-client-java`", "GrpcDriver.java"),
    "python-grpc": _grpc("python-grpc", "Python `rocketmq-python-client`", "grpc_driver.py"),
    "node-grpc": _grpc("node-grpc", "Node `rocketmq-client-nodejs`", "grpc_driver.js"),
    "go-grpc": _grpc("go-grpc", "Go `rocketmq-clients/golang/v5`", "grpc_driver.go"),
    "rust-grpc": _grpc("rust-grpc", "Rust `rocketmq`", "grpc_driver.rs"),
}
"""Clients in the order of the tables."""


async def started(stack: AsyncExitStack, client: str, process: BrokerProcess, home: Path) -> Driver:
    """Start the client's application, and return its driver."""
    application = await CLIENTS[client].tried.open(stack, process, home)
    assert isinstance(application, applications.Driven)
    return application.driver
