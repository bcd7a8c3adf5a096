"""What RocketMQ's Java clients do by the version that the broker tells them."""

from pathlib import Path

import pytest

from tests.clients.java.building import java_command
from tests.clients.java.conftest import running_mqadmin
from tests.clients.java.test_mqadmin_statistics import rows
from tests.clients.remoting.conftest import running_remoting_broker
from tests.clients.remoting.driver import ClientError, running_driver

pytestmark = [
    pytest.mark.interop,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.usefixtures("built"),
]


@pytest.mark.parametrize("client", ["java-4.9", "java-5.5"])
async def test_a_broker_before_4_1_gets_no_sql_filters(client: str, home: Path, topic: str) -> None:
    async with running_remoting_broker("--server-version", "4.0.9") as broker:
        await broker.control.send(topic, "a", properties={"price": "10"})
        command = (*java_command(client, home), "rocketmq.SqlFilterDriver")
        async with running_driver(command, home, name_server=broker.name_server) as driver:
            with pytest.raises(
                ClientError, match="231] does not upgrade to support for filter message by SQL92"
            ):
                await driver.call("pull", group=topic, topic=topic, sql="price > 1")


@pytest.mark.parametrize("version", ["mqadmin-4.9", "mqadmin-5.5"])
async def test_mqadmin_shows_the_version(version: str, home: Path) -> None:
    async with (
        running_remoting_broker("--server-version", "5.3.3") as broker,
        running_mqadmin(version, broker.name_server, home) as mqadmin,
    ):
        [line] = rows(await mqadmin("clusterList"))
        assert line[4] == "V5_3_3"
