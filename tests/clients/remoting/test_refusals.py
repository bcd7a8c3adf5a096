"""RocketMQ's clients for Python and Node raise errors for refusals, and keep working."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.clients.remoting.conftest import RemotingBroker, running_remoting_broker
from tests.clients.remoting.driver import ClientError, Driver, running_driver

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def strict() -> AsyncIterator[RemotingBroker]:
    """A broker without automatic creation."""
    options = ("--no-auto-create-topics", "--no-auto-create-groups")
    async with running_remoting_broker(*options) as broker:
        yield broker


@pytest.fixture
def command(request: pytest.FixtureRequest, client: str) -> tuple[str, ...]:
    """Command that runs the driver of the library."""
    command: tuple[str, ...] = request.getfixturevalue(f"{client}_client")
    return command


@pytest_asyncio.fixture(loop_scope="session")
async def driver(
    strict: RemotingBroker, client: str, command: tuple[str, ...], home: Path
) -> AsyncIterator[Driver]:
    """The library, connected to that broker."""
    option = {"python": "name_server", "node": "nameSrv"}[client]
    async with running_driver(command, home, **{option: strict.name_server}) as driver:
        yield driver


async def test_a_topic_that_is_not_created(
    strict: RemotingBroker, client: str, driver: Driver, topic: str
) -> None:
    told = {"python": "No route info of this topic", "node": "No topic route info in name server"}[client]
    with pytest.raises(ClientError, match=told):
        await driver.call("send", topic=topic, body="too early")
    await strict.control.put_topic(topic)
    await driver.call("send", topic=topic, body="in time")
    await strict.control.put_group("GID_billing")
    [message] = await strict.control.receive(topic, group="GID_billing")
    assert message["body"] == "in time"


async def test_a_group_that_is_not_created(
    strict: RemotingBroker, driver: Driver, hurry: dict[str, Any], topic: str
) -> None:
    await strict.control.put_topic(topic)
    await strict.control.send(topic, "patience")
    await driver.call("consume", group=topic, topic=topic, **hurry)
    await strict.control.put_group(topic)
    assert await driver.bodies(topic, 1) == ["patience"]


async def test_a_topic_to_which_nobody_may_send(strict: RemotingBroker, driver: Driver, topic: str) -> None:
    await strict.control.put_topic(topic, perm="r")
    with pytest.raises(ClientError):
        await driver.call("send", topic=topic, body="no")
