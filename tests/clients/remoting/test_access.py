"""Accounts with the clients for Python and Node."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.access import RETRIED, keys_are_checked, keys_are_needed, written
from tests.clients.remoting.conftest import RemotingBroker, running_remoting_broker
from tests.clients.remoting.driver import Driver, running_driver

pytestmark = pytest.mark.asyncio(loop_scope="session")

OF_PYTHON = "ProducerSendSyncFailed: No route info of this topic"
"""The C++ client's text for any refusal."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RemotingBroker]:
    """A broker with accounts."""
    async with running_remoting_broker(*written(tmp_path_factory.mktemp("acl"))) as broker:
        yield broker


@pytest.mark.feature("Access keys are checked", "python")
async def test_python(
    guarded: RemotingBroker, python_client: tuple[str, ...], home: Path, topic: str
) -> None:
    def start(key: str, secret: str) -> AbstractAsyncContextManager[Driver]:
        keys = [key, secret]
        return running_driver(python_client, home, name_server=guarded.name_server, credentials=keys)

    await keys_are_checked(guarded, start, topic, OF_PYTHON)
    async with running_driver(python_client, home, name_server=guarded.name_server) as client:
        await keys_are_needed(client, topic, OF_PYTHON)


@pytest.mark.feature("Access keys are checked", "node")
async def test_node(guarded: RemotingBroker, node_client: tuple[str, ...], home: Path, topic: str) -> None:
    def start(key: str, secret: str) -> AbstractAsyncContextManager[Driver]:
        keys = {"accessKeyId": key, "accessKeySecret": secret}
        return running_driver(node_client, home, nameSrv=guarded.name_server, **keys)

    await keys_are_checked(guarded, start, topic, RETRIED)
    async with running_driver(node_client, home, nameSrv=guarded.name_server) as client:
        await keys_are_needed(client, topic, RETRIED)
