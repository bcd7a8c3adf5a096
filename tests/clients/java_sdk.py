"""Aliyun's client for Java, ``mq-http-sdk``. One process, which ``HttpDriver`` drives, has all clients."""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from tests.clients.remoting.driver import Driver
from tests.clients.sdk import (
    NOTHING,
    Account,
    NotSettledError,
    Outgoing,
    Published,
    Received,
    RefusedError,
    Sdk,
)

_numbers = itertools.count()


class JavaSdk(Sdk):
    """A client for Java, opened by :func:`open_java_sdk`."""

    def __init__(self, driver: Driver, name: str, instance: str) -> None:
        self._driver = driver
        self._client = {"client": name, "instance": instance}

    async def publish(self, topic: str, message: Outgoing) -> Published:
        return _published(await self.call("publish", topic=topic, message=asdict(message)))

    async def consume(
        self,
        topic: str,
        group: str,
        *,
        limit: int = 16,
        wait_s: int | None = None,
        tags: str | None = None,
        orderly: bool = False,
    ) -> list[Received]:
        how = {"limit": limit, "wait_s": wait_s, "tags": tags, "orderly": orderly}
        return _received(await self.call("consume", topic=topic, group=group, **how))

    async def acknowledge(self, topic: str, group: str, handles: Sequence[str]) -> None:
        await self.call("acknowledge", topic=topic, group=group, handles=list(handles))

    async def publish_half(self, topic: str, group: str, message: Outgoing) -> Published:
        return _published(await self.call("publish_half", topic=topic, group=group, message=asdict(message)))

    async def consume_half(self, topic: str, group: str) -> list[Received]:
        return _received(await self.call("consume_half", topic=topic, group=group))

    async def commit(self, topic: str, group: str, handle: str) -> None:
        await self.call("commit", topic=topic, group=group, handle=handle)

    async def rollback(self, topic: str, group: str, handle: str) -> None:
        await self.call("rollback", topic=topic, group=group, handle=handle)

    async def call(self, call: str, **arguments: object) -> Any:
        """Call the driver. Raises RefusedError, NotSettledError, ClientError."""
        answer = await self.answer(call, **arguments)
        if failed := answer.get("failed"):
            raise NotSettledError(failed)
        if code := answer.get("refused"):
            raise RefusedError(code, answer["request_id"])
        return answer.get("returned")

    async def answer(self, call: str, **arguments: object) -> dict[str, Any]:
        """Return the driver's own answer to a call. Raises ClientError."""
        answer: dict[str, Any] = await self._driver.call(call, **self._client, **arguments)
        return answer


@asynccontextmanager
async def open_java_sdk(driver: Driver, account: Account) -> AsyncIterator[JavaSdk]:
    """Open a separate client for the account."""
    name = str(next(_numbers))
    await driver.call("open", client=name, **account._asdict())
    try:
        yield JavaSdk(driver, name, account.instance)
    finally:
        await driver.call("close", client=name)


def _published(published: dict[str, Any]) -> Published:
    return Published(published["message_id"], published["body_md5"], published.get("handle"))


def _received(messages: list[dict[str, Any]] | None) -> list[Received]:
    """Convert the answer. The library returns null without request id if the service has no message."""
    if messages is None:
        raise RefusedError(NOTHING, request_id="")
    nothing: dict[str, Any] = dict.fromkeys(Received._fields)  # the driver omits null
    return [Received(**nothing | message) for message in messages]
