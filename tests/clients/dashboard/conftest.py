"""The RocketMQ Dashboard's back end, built from source, and a broker that it monitors."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.clients import from_source
from tests.clients.dashboard.versions import SOURCE
from tests.clients.remoting.conftest import RemotingBroker, broker

__all__ = ["broker"]


class DashboardError(Exception):
    """An error that the Dashboard reports."""


class Dashboard:
    """The running back end, with the REST calls that its pages make."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def get(self, path: str, **query: str | int) -> Any:
        """Return the data of a page, or None if it has none yet. Raises DashboardError."""
        return await self._call("GET", path, query, None)

    async def post(self, path: str, body: object = None, **query: str | int) -> Any:
        """Make a change, and return its result. Raises DashboardError."""
        return await self._call("POST", path, query, body)

    async def _call(self, method: str, path: str, query: Mapping[str, str | int], body: object) -> Any:
        async with self._session.request(method, self._url + path, params=query, json=body) as response:
            answer = await response.json()
        if answer is None:
            return None
        if answer["status"] != 0:
            raise DashboardError(answer["errMsg"])
        return answer["data"]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def dashboard(
    broker: RemotingBroker, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Dashboard]:
    """The back end, monitoring the broker."""
    from_source.build(SOURCE)
    home = tmp_path_factory.mktemp("dashboard")
    options = (
        f"--rocketmq.config.namesrvAddrs={broker.name_server}",
        f"--rocketmq.config.dataPath={home}",
    )
    async with (
        from_source.running(SOURCE, home, "org.apache.rocketmq.dashboard.App", *options) as url,
        aiohttp.ClientSession() as session,
    ):
        yield Dashboard(url, session)
