"""Accounts and TLS with RocketMQ's and Aliyun's clients for Java."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.clients.access import (
    KEY,
    RETRIED,
    SECRET,
    keys_are_checked,
    keys_are_needed,
    patiently_sent,
    written,
)
from tests.clients.java.conftest import rocketmq_driver
from tests.clients.remoting.conftest import running_remoting_broker
from tests.clients.remoting.driver import ClientError, Driver, running_driver

pytestmark = [
    pytest.mark.interop,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.usefixtures("built"),
]

TLS = "-Dtls.enable=true"


@pytest.mark.feature("Access keys are checked", "java-4.9", "java-5.5")
async def test_keys(client: str, home: Path, tmp_path: Path, topic: str) -> None:
    async with running_remoting_broker(*written(tmp_path)) as broker:

        def start(key: str, secret: str) -> AbstractAsyncContextManager[Driver]:
            address = broker.name_server
            return rocketmq_driver(client, home, name_server=address, access_key=key, secret=secret)

        await keys_are_checked(broker, start, topic, RETRIED)
        async with rocketmq_driver(client, home, name_server=broker.name_server) as driver:
            await keys_are_needed(driver, topic, RETRIED)
        async with start(KEY, SECRET) as driver:  # clients sign lookups by key differently in each version
            [found] = await driver.call("find_by_key", topic=topic, key="7")
            assert found["body"] == "mine"


@pytest.mark.feature("Access keys are checked", "ons-java")
async def test_keys_of_ons(ons_client: tuple[str, ...], home: Path, tmp_path: Path, topic: str) -> None:
    async with running_remoting_broker(*written(tmp_path)) as broker:

        def start(key: str, secret: str) -> AbstractAsyncContextManager[Driver]:
            keys = {"AccessKey": key, "SecretKey": secret}
            return running_driver(ons_client, home, NAMESRV_ADDR=broker.name_server, **keys)

        await keys_are_checked(broker, start, topic)


@pytest.mark.feature("TLS", "java-4.9", "java-5.5")
async def test_tls(client: str, home: Path, topic: str) -> None:
    """The broker enforces TLS, so the client uses it."""
    async with running_remoting_broker("--tls", "enforcing") as broker:
        async with rocketmq_driver(client, home, TLS, name_server=broker.name_server) as driver:
            await patiently_sent(driver, topic, "secret")
            await driver.call("consume", group=topic, topic=topic)
            assert await driver.bodies(topic, 1) == ["secret"]
        async with rocketmq_driver(client, home, name_server=broker.name_server) as driver:
            with pytest.raises(ClientError):
                await driver.call("send", topic=topic, body="for everybody")


@pytest.mark.feature("TLS", "ons-java")
async def test_tls_of_ons(ons_client: tuple[str, ...], home: Path, topic: str) -> None:
    java, *rest = ons_client
    keys = {"AccessKey": "any key", "SecretKey": "any secret"}
    async with running_remoting_broker("--tls", "enforcing") as broker:
        command = (java, TLS, *rest)
        async with running_driver(command, home, NAMESRV_ADDR=broker.name_server, **keys) as driver:
            await patiently_sent(driver, topic, "secret")
            await driver.call("consume", group=topic, topic=topic)
            assert (await driver.next(topic)).body == "secret"
