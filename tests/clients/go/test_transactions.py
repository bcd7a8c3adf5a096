"""What RocketMQ's Go client prepares, commits and rolls back, in time and when it is asked."""

import pytest
import pytest_asyncio

from tests.clients.remoting import transactions
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import Driver

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def deciding(broker: RemotingBroker, go: Driver) -> Driver:
    """The client with a transaction producer, which the broker knows."""
    await transactions.known_as_producer(broker, go)
    return go


@pytest.mark.feature("Commit and rollback", "go")
async def test_commit_and_rollback(broker: RemotingBroker, deciding: Driver, topic: str) -> None:
    await transactions.commits_and_rolls_back(broker, deciding, topic)


@pytest.mark.feature("Check-backs", "go")
async def test_committed_when_asked(broker: RemotingBroker, deciding: Driver, topic: str) -> None:
    await transactions.commits_when_asked(broker, deciding, topic)


@pytest.mark.feature("Check-backs", "go")
async def test_rolled_back_when_asked(broker: RemotingBroker, deciding: Driver, topic: str) -> None:
    await transactions.rolls_back_when_asked(broker, deciding, topic)


@pytest.mark.feature("Check-backs", "go")
async def test_given_up(broker: RemotingBroker, deciding: Driver, topic: str) -> None:
    await transactions.is_asked_until_given_up(broker, deciding, topic)


@pytest.mark.feature("Committed with a delay", "go")
@pytest.mark.parametrize(("name", "text"), [("DELAY", "5"), ("TIMER_DELAY_SEC", "60")])
async def test_committed_with_a_delay(
    broker: RemotingBroker, deciding: Driver, topic: str, name: str, text: str
) -> None:
    await transactions.commits_with_a_delay(broker, deciding, topic, 60, **{name: text})
