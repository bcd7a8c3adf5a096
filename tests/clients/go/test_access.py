"""Accounts, as the Go client finds them. Its releases know no TLS."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.clients.access import KEY, SECRET, keys_are_checked, keys_are_needed, written
from tests.clients.remoting.conftest import running_remoting_broker
from tests.clients.remoting.driver import Driver, running_driver

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.feature("Access keys are checked", "go")
async def test_keys(go_client: tuple[str, ...], home: Path, tmp_path: Path, topic: str) -> None:
    async with running_remoting_broker(*written(tmp_path)) as broker:

        def start(key: str, secret: str) -> AbstractAsyncContextManager[Driver]:
            keys = {"access_key": key, "secret": secret}
            return running_driver(go_client, home, name_server=broker.name_server, **keys)

        await keys_are_checked(broker, start, topic)
        async with running_driver(go_client, home, name_server=broker.name_server) as client:
            await keys_are_needed(client, topic)

        # The token of a session is sent, but not signed.
        keys = {"access_key": KEY, "secret": SECRET, "token": "of a session"}
        async with running_driver(go_client, home, name_server=broker.name_server, **keys) as client:
            await client.call("send", topic=topic, body="with a token")
