"""Accounts for the tests of every client, and the expected results."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.clients.remoting.conftest import RemotingBroker
from tests.clients.remoting.driver import ClientError, Driver

KEY, SECRET = "shopkeeper", "a long secret"
OTHERS_KEY = "nobody knows"

ACCOUNTS = f"""
accounts:
  - accessKey: {KEY}
    secretKey: {SECRET}
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: PUB|SUB
    defaultGroupPerm: SUB
    topicPerms:
      - secret-orders=DENY
      - read-orders=SUB
"""
"""Accounts without an administrator, because no client here needs one."""

FORBIDDEN = ["secret-orders", "read-orders"]
"""Topics without permission to send."""


def written(folder: Path) -> tuple[str, str]:
    """Return the options of a broker with only these accounts."""
    file = folder / "plain_acl.yml"
    file.write_text(ACCOUNTS)
    return "--acl", str(file)


RETRIED = r"Send \[\d\] times, still failed"
"""Error text of some clients for any refused message, whatever the broker's reason."""

OUT_OF_TIME = "timeout", "Timeout", "defaultMQProducer send exception"
TRIES = 10

Start = Callable[[str, str], AbstractAsyncContextManager[Driver]]
"""A client with an access key and a secret."""


async def keys_are_checked(
    broker: RemotingBroker, start: Start, topic: str, words: str | None = None
) -> None:
    """Check that valid keys work within their permissions, and that invalid keys are refused.

    ``words`` is the client's text for any refusal, if it hides the reason.
    """
    for forbidden in FORBIDDEN:
        await broker.control.put_topic(forbidden)
    await broker.control.put_topic(topic)

    async with start(KEY, SECRET) as client:
        await patiently_sent(client, topic, "mine")
        await client.call("consume", group=topic, topic=topic)
        assert await client.bodies(topic, 1) == ["mine"]
        for forbidden in FORBIDDEN:
            await _is_refused(client, forbidden, words or f"No default permission for topic:{forbidden}")

    async with start(KEY, "another secret") as client:
        await _is_refused(client, topic, words or f"Check signature failed for accessKey={KEY}")
    async with start(OTHERS_KEY, SECRET) as client:
        await _is_refused(client, topic, words or f"No acl config for {OTHERS_KEY}")
    found = await broker.control.receive(topic, group="GID_judge", max_messages=8)
    assert {message["body"] for message in found} == {"mine"}
    for forbidden in FORBIDDEN:
        assert await broker.control.receive(forbidden, group="GID_judge") == []


async def keys_are_needed(client: Driver, topic: str, words: str | None = None) -> None:
    """Check that a client without keys is refused."""
    await _is_refused(client, topic, words or "AclException: No accessKey is configured")


async def _is_refused(client: Driver, topic: str, why: str) -> None:
    with pytest.raises(ClientError, match=why):
        await patiently_sent(client, topic, "not mine")


async def patiently_sent(client: Driver, topic: str, body: str) -> None:
    """Send a message, retrying after timeouts, because a cold JVM may exceed the client's three seconds."""
    for _ in range(TRIES):
        try:
            await client.call("send", topic=topic, body=body, tag="a", keys=["7"])
            return
        except ClientError as error:
            if not any(words in str(error) for words in OUT_OF_TIME):
                raise
    pytest.fail(f"{body} could not be sent in time")
