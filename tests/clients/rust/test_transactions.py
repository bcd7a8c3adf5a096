"""What the Rust client prepares, commits and rolls back, in time and when it is asked."""

import pytest
import pytest_asyncio

from tests.clients.remoting import transactions
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import Driver

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def deciding(broker: RemotingBroker, rust: Driver) -> Driver:
    """The client with a transaction producer, which the broker knows."""
    await transactions.known_as_producer(broker, rust)
    return rust


@pytest.mark.feature("Commit and rollback", "rust")
async def test_commit_and_rollback(broker: RemotingBroker, deciding: Driver, topic: str) -> None:
    await transactions.commits_and_rolls_back(broker, deciding, topic)


@pytest.mark.feature("Check-backs", "rust")
async def test_committed_when_asked(broker: RemotingBroker, deciding: Driver, topic: str) -> None:
    await transactions.commits_when_asked(broker, deciding, topic)


@pytest.mark.feature("Check-backs", "rust")
async def test_rolled_back_when_asked(broker: RemotingBroker, deciding: Driver, topic: str) -> None:
    await transactions.rolls_back_when_asked(broker, deciding, topic)


@pytest.mark.feature("Check-backs", "rust")
async def test_given_up(broker: RemotingBroker, deciding: Driver, topic: str) -> None:
    await transactions.is_asked_until_given_up(broker, deciding, topic)
