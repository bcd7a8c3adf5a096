"""What the tests ask of a client library, in one form for all of them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypedDict, Unpack

NOTHING = "MessageNotExist"
"""How the service says that there is no message, or that a handle no longer holds one."""


class Account(NamedTuple):
    """Whom a client library speaks to, and as who."""

    url: str
    key_id: str = "any"
    secret: str = "any"  # noqa: S105 - the broker takes any unless told otherwise
    token: str = ""  # of temporary credentials
    instance: str = ""


@dataclass(frozen=True, kw_only=True)
class Outgoing:
    """A message to publish; what is None is not set."""

    body: str = "hello"
    tag: str | None = None
    key: str | None = None
    start_deliver_ms: int | str | None = None
    sharding_key: str | None = None
    check_after_s: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


class Published(NamedTuple):
    """What the service says of a published message; the handle only for half messages."""

    message_id: str
    body_md5: str
    handle: str | None


class Received(NamedTuple):
    """A message as the library shows it, in ``properties`` those without a getter of their own."""

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
    """What :meth:`Sdk.consume` can be told."""

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
    """Some handles could not be acknowledged, committed or rolled back: their error codes."""

    def __init__(self, failed: Mapping[str, str]) -> None:
        super().__init__(failed)
        self.failed = failed


class Sdk(ABC):
    """One connected client library. Its methods raise RefusedError, and one at a time may run."""

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
        """Take messages; that there is none is refused with ``NOTHING``."""

    @abstractmethod
    async def acknowledge(self, topic: str, group: str, handles: Sequence[str]) -> None:
        """Acknowledge messages. Raises NotSettledError."""

    @abstractmethod
    async def publish_half(self, topic: str, group: str, message: Outgoing) -> Published:
        """Publish a half message, of a transaction that is not decided."""

    @abstractmethod
    async def consume_half(self, topic: str, group: str) -> list[Received]:
        """Take half messages whose transactions should be looked at."""

    @abstractmethod
    async def commit(self, topic: str, group: str, handle: str) -> None:
        """Let consumers see a half message. Raises NotSettledError."""

    @abstractmethod
    async def rollback(self, topic: str, group: str, handle: str) -> None:
        """Never let consumers see a half message. Raises NotSettledError."""

    async def take(self, topic: str, group: str, **how: Unpack[How]) -> list[Received]:
        """As :meth:`consume`, but no message is an empty list."""
        try:
            return await self.consume(topic, group, **how)
        except RefusedError as refusal:
            if refusal.code != NOTHING:
                raise
            return []

    async def bodies(self, topic: str, group: str, **how: Unpack[How]) -> list[str]:
        """The bodies of what there is; it stays unacknowledged."""
        return [message.body for message in await self.take(topic, group, **how)]

    async def halves(self, topic: str, group: str) -> list[Received]:
        """As :meth:`consume_half`, but no message is an empty list."""
        try:
            return await self.consume_half(topic, group)
        except RefusedError as refusal:
            if refusal.code != NOTHING:
                raise
            return []
