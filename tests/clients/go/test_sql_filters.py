"""What RocketMQ's Go client receives that filters by SQL92."""

import pytest

from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import Driver

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.feature("SQL92 filters", "go")
async def test_sql(broker: RemotingBroker, go: Driver, topic: str) -> None:
    for price in ("9", "10", "20", "21"):
        await go.call("send", topic=topic, body=price, properties={"price": price})
    await broker.control.send(topic, "free")
    await go.call("consume", group=topic, topic=topic, sql="price BETWEEN 10 AND 20 OR price IS NULL")
    assert set(await go.bodies(topic, 3)) == {"10", "20", "free"}
    await go.call("send", topic=topic, body="too much", properties={"price": "99"})
    await go.call("send", topic=topic, body="last", properties={"price": "15"})
    assert await go.bodies(topic, 1) == ["last"]


@pytest.mark.feature("SQL92 filters", "go")
async def test_a_retry_comes_back(broker: RemotingBroker, go: Driver, topic: str) -> None:
    await go.call("send", topic=topic, body="again", properties={"price": "15"})
    await go.call("consume", group=topic, topic=topic, sql="price > 10", failures=1)
    assert (await go.next(topic)).times == 0
    [due_ms] = await broker.pending(f"%RETRY%{topic}")
    await broker.control.move_to(due_ms)
    assert (await go.next(topic)).times == 1
