"""One interface to all client libraries, for the tests."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypedDict, Unpack

NOTHING = "MessageNotExist"
"""The service's error codes for a missing message and for an expired handle."""


class Account(NamedTuple):
    """Address and credentials of a client library."""

    url: str
    key_id: str = "any"
    secret: str = "any"  # noqa: S105 - the broker accepts any by default
    token: str = ""  # for temporary credentials
    instance: str = ""


@dataclass(frozen=True, kw_only=True)
class Outgoing:
    """A message to publish; fields that are None are not set."""

    body: str = "hello"
    tag: str | None = None
    key: str | None = None
    start_deliver_ms: int | str | None = None
    sharding_key: str | None = None
    check_after_s: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


class Published(NamedTuple):
    """The service's answer to a published message; only half messages have a handle."""

    message_id: str
    body_md5: str
    handle: str | None


class Received(NamedTuple):
    """A message as the library shows it; ``properties`` has the properties without their own getter."""

    message_id: str
    body: str
    body_md5: str
    tag: str | None
    key: str | None
    start_deliver_ms: int | None
    sharding_key: str | None
    properties: dict[str, str]
    handle: str
    publish_ms: int
    first_consume_ms: int
    next_consume_ms: int
    times: int


class How(TypedDict, total=False):
    """Options of :meth:`Sdk.consume`."""

    limit: int
    wait_s: int
    tags: str
    orderly: bool


class RefusedError(Exception):
    """The service refused a request as a whole."""

    def __init__(self, code: str, request_id: str) -> None:
        super().__init__(code)
        self.code = code
        self.request_id = request_id


class NotSettledError(Exception):
    """Some handles could not be acknowledged, committed or rolled back; has their error codes."""

    def __init__(self, failed: Mapping[str, str]) -> None:
        super().__init__(failed)
        self.failed = failed


class Sdk(ABC):
    """One connected client library. Its methods raise RefusedError, and do not run concurrently."""

    @abstractmethod
    async def publish(self, topic: str, message: Outgoing) -> Published:
        """Publish a message."""

    @abstractmethod
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
        """Receive messages. Raises RefusedError with ``NOTHING`` if there are none."""

    @abstractmethod
    async def acknowledge(self, topic: str, group: str, handles: Sequence[str]) -> None:
        """Acknowledge messages. Raises NotSettledError."""

    @abstractmethod
    async def publish_half(self, topic: str, group: str, message: Outgoing) -> Published:
        """Publish a half message."""

    @abstractmethod
    async def consume_half(self, topic: str, group: str) -> list[Received]:
        """Receive half messages whose transactions are due for a check."""

    @abstractmethod
    async def commit(self, topic: str, group: str, handle: str) -> None:
        """Commit a half message. Raises NotSettledError."""

    @abstractmethod
    async def rollback(self, topic: str, group: str, handle: str) -> None:
        """Roll back a half message. Raises NotSettledError."""

    async def take(self, topic: str, group: str, **how: Unpack[How]) -> list[Received]:
        """Like :meth:`consume`, but returns an empty list if there are no messages."""
        try:
            return await self.consume(topic, group, **how)
        except RefusedError as refusal:
            if refusal.code != NOTHING:
                raise
            return []

    async def bodies(self, topic: str, group: str, **how: Unpack[How]) -> list[str]:
        """Return the bodies of available messages, which stay unacknowledged."""
        return [message.body for message in await self.take(topic, group, **how)]

    async def halves(self, topic: str, group: str) -> list[Received]:
        """Like :meth:`consume_half`, but returns an empty list if there are no messages."""
        try:
            return await self.consume_half(topic, group)
        except RefusedError as refusal:
            if refusal.code != NOTHING:
                raise
            return []
