"""Half messages with RocketMQ's Java clients, decided at once or after a check-back."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.java.building import java_command
from tests.clients.remoting import transactions
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import Driver, running_driver

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

JAVA = ("java-4.9", "java-5.5")


@pytest.fixture(scope="session", params=JAVA)
def client(request: pytest.FixtureRequest) -> str:
    """The client under test, by its name on the compatibility page."""
    name: str = request.param
    return name


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def deciding(
    client: str,
    broker: RemotingBroker,
    built: None,  # noqa: ARG001
    home: Path,
) -> AsyncIterator[Driver]:
    """A transaction producer that the broker knows."""
    command = (*java_command(client, home), "rocketmq.TransactionDriver")
    async with running_driver(
        command, home, name_server=broker.name_server, group=transactions.GROUP
    ) as driver:
        await transactions.known_as_producer(broker, driver)
        yield driver


@pytest.mark.feature("Commit and rollback", *JAVA)
async def test_commit_and_rollback(broker: RemotingBroker, deciding: Driver, topic: str) -> None:
    await transactions.commits_and_rolls_back(broker, deciding, topic)


@pytest.mark.feature("Check-backs", *JAVA)
async def test_committed_when_asked(broker: RemotingBroker, deciding: Driver, topic: str) -> None:
    await transactions.commits_when_asked(broker, deciding, topic)


@pytest.mark.feature("Check-backs", *JAVA)
async def test_rolled_back_when_asked(broker: RemotingBroker, deciding: Driver, topic: str) -> None:
    await transactions.rolls_back_when_asked(broker, deciding, topic)


@pytest.mark.feature("Check-backs", *JAVA)
async def test_given_up(broker: RemotingBroker, deciding: Driver, topic: str) -> None:
    await transactions.is_asked_until_given_up(broker, deciding, topic)


@pytest.mark.feature("Committed with a delay", "java-4.9")
@pytest.mark.parametrize("client", ["java-4.9"], indirect=True)
async def test_committed_with_a_delay(broker: RemotingBroker, deciding: Driver, topic: str) -> None:
    """The delay is not a level, because 4.9 removes levels from half messages. 5.5 refuses all delays."""
    await transactions.commits_with_a_delay(broker, deciding, topic, 100, TIMER_DELAY_SEC="100")
