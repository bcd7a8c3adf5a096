"""SQL92 filters with RocketMQ's Java clients."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.java.building import java_command
from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import ClientError, Driver, running_driver

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

SQL = "price BETWEEN 10 AND 20 AND region IN ('n', 'o''b') OR note IS NOT NULL"
WANTED = [{"price": "10", "region": "n"}, {"price": "20", "region": "o'b"}, {"note": "x"}]
OTHERS = [{"price": "21", "region": "n"}, {"price": "15", "region": "s"}, {"region": "n"}]


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=["java-4.9", "java-5.5"])
async def filtering(
    request: pytest.FixtureRequest,
    broker: RemotingBroker,
    built: None,  # noqa: ARG001
    home: Path,
) -> AsyncIterator[Driver]:
    """The client of each version."""
    command = (*java_command(request.param, home), "rocketmq.SqlFilterDriver")
    async with running_driver(command, home, name_server=broker.name_server) as driver:
        yield driver


async def fill(broker: RemotingBroker, topic: str) -> None:
    """Send messages numbered from 0, of which three match."""
    for number, properties in enumerate((*WANTED, *OTHERS)):
        await broker.control.send(topic, str(number), properties=properties)


@pytest.mark.feature("SQL92 filters", "java-4.9", "java-5.5")
async def test_push(broker: RemotingBroker, filtering: Driver, topic: str) -> None:
    await fill(broker, topic)
    await filtering.call("consume", group=topic, topic=topic, sql=SQL)
    assert set(await filtering.bodies(topic, 3)) == {"0", "1", "2"}
    await fill(broker, topic)
    assert set(await filtering.bodies(topic, 3)) == {"0", "1", "2"}
    await broker.control.send(topic, "last", properties={"note": "x"})
    assert await filtering.bodies(topic, 1) == ["last"]


@pytest.mark.feature("SQL92 filters", "java-4.9", "java-5.5")
async def test_a_retry_comes_back(broker: RemotingBroker, filtering: Driver, topic: str) -> None:
    await broker.control.send(topic, "again", properties={"note": "x"})
    await filtering.call("consume", group=topic, topic=topic, sql=SQL, failures=1)
    assert (await filtering.next(topic)).times == 0
    [due_ms] = await broker.pending(f"%RETRY%{topic}")
    await broker.control.move_to(due_ms)
    retried = await filtering.next(topic)
    assert (retried.body, retried.times) == ("again", 1)


@pytest.mark.feature("SQL92 filters", "java-4.9", "java-5.5")
@pytest.mark.parametrize("call", ["poll", "pull"])
async def test_pull(broker: RemotingBroker, filtering: Driver, topic: str, call: str) -> None:
    await fill(broker, topic)
    messages = await filtering.call(call, group=topic, topic=topic, sql=SQL, count=3)
    assert sorted(message["body"] for message in messages) == ["0", "1", "2"]


@pytest.mark.feature("SQL92 filters", "java-4.9", "java-5.5")
async def test_a_wrong_expression_does_not_start(
    broker: RemotingBroker, filtering: Driver, topic: str
) -> None:
    await broker.control.put_topic(topic)
    with pytest.raises(ClientError, match="line 1, column 3 of the filter: LIKE is not expected here"):
        await filtering.call("consume", group=topic, topic=topic, sql="a LIKE 'x%'")
    with pytest.raises(ClientError, match="column 5 of the filter: the expression ends too early"):
        await filtering.call("pull", group=f"{topic}-pull", topic=topic, sql="a > ")
