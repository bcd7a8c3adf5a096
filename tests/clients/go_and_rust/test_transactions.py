"""Half messages with RocketMQ's clients for Go and Rust, decided at once or after a check-back."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.remoting import transactions
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import Driver, running_driver

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]


@pytest.fixture(scope="module", params=["go", "rust"])
def client(request: pytest.FixtureRequest) -> str:
    """The client under test; only one runs at a time, because both have producers of the same group."""
    name: str = request.param
    return name


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def deciding(
    request: pytest.FixtureRequest, client: str, broker: RemotingBroker, home: Path
) -> AsyncIterator[Driver]:
    """A client with a transaction producer that the broker knows."""
    command: tuple[str, ...] = request.getfixturevalue(f"{client}_client")
    async with running_driver(command, home, name_server=broker.name_server) as driver:
        await transactions.known_as_producer(broker, driver)
        yield driver


@pytest.mark.feature("Commit and rollback", "go", "rust")
async def test_commit_and_rollback(broker: RemotingBroker, deciding: Driver, topic: str) -> None:
    await transactions.commits_and_rolls_back(broker, deciding, topic)


@pytest.mark.feature("Check-backs", "go", "rust")
async def test_committed_when_asked(broker: RemotingBroker, deciding: Driver, topic: str) -> None:
    await transactions.commits_when_asked(broker, deciding, topic)


@pytest.mark.feature("Check-backs", "go", "rust")
async def test_rolled_back_when_asked(broker: RemotingBroker, deciding: Driver, topic: str) -> None:
    await transactions.rolls_back_when_asked(broker, deciding, topic)


@pytest.mark.feature("Check-backs", "go", "rust")
async def test_given_up(broker: RemotingBroker, deciding: Driver, topic: str) -> None:
    await transactions.is_asked_until_given_up(broker, deciding, topic)


@pytest.mark.feature("Committed with a delay", "go")
@pytest.mark.parametrize("client", ["go"], indirect=True)
@pytest.mark.parametrize(("name", "text"), [("DELAY", "5"), ("TIMER_DELAY_SEC", "60")])
async def test_committed_with_a_delay(
    broker: RemotingBroker, deciding: Driver, topic: str, name: str, text: str
) -> None:
    """Rust's client refuses to send such a half message."""
    await transactions.commits_with_a_delay(broker, deciding, topic, 60, **{name: text})
