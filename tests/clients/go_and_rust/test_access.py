"""Accounts with RocketMQ's clients for Go and Rust."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.clients.access import KEY, SECRET, keys_are_checked, keys_are_needed, written
from tests.clients.remoting.conftest import running_remoting_broker
from tests.clients.remoting.driver import Driver, running_driver

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

REFUSED = {"go": None, "rust": "broker.operation.failed"}
"""A client's text for any refusal by the broker, if it hides the reason."""


@pytest.mark.feature("Access keys are checked", "go", "rust")
async def test_keys(client: str, command: tuple[str, ...], home: Path, tmp_path: Path, topic: str) -> None:
    async with running_remoting_broker(*written(tmp_path)) as broker:

        def start(key: str, secret: str) -> AbstractAsyncContextManager[Driver]:
            keys = {"access_key": key, "secret": secret}
            return running_driver(command, home, name_server=broker.name_server, **keys)

        await keys_are_checked(broker, start, topic, REFUSED[client])
        async with running_driver(command, home, name_server=broker.name_server) as without_keys:
            await keys_are_needed(without_keys, topic, REFUSED[client])


async def test_the_token_of_a_session(
    command: tuple[str, ...], home: Path, tmp_path: Path, topic: str
) -> None:
    """Rust's client signs the token, Go's does not."""
    async with running_remoting_broker(*written(tmp_path)) as broker:
        await broker.control.put_topic(topic)
        keys = {"access_key": KEY, "secret": SECRET, "token": "of a session"}
        async with running_driver(command, home, name_server=broker.name_server, **keys) as client:
            await client.call("send", topic=topic, body="with a token")
