"""rocketmq-exporter, built from source, and a broker that it monitors."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.clients import from_source
from tests.clients.exporter.versions import SOURCE
from tests.clients.remoting.conftest import RemotingBroker, broker

__all__ = ["broker"]

_EACH_SECOND = "* * * * * ?"
_TASKS = (
    "TopicOffset",
    "Producer",
    "ConsumerOffset",
    "BrokerStatsTopic",
    "BrokerStats",
    "BrokerRuntimeStats",
)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def exporter(broker: RemotingBroker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """Address of its metrics, which it collects each second instead of each minute."""
    from_source.build(SOURCE)
    home = tmp_path_factory.mktemp("exporter")
    options = [f"--task.collect{task}.cron={_EACH_SECOND}" for task in _TASKS]
    name_server = f"--rocketmq.config.namesrvAddr={broker.name_server}"
    main = "org.apache.rocketmq.exporter.RocketMQExporterApplication"
    async with from_source.running(SOURCE, home, main, name_server, *options) as url:
        yield f"{url}/metrics"
