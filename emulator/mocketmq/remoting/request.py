"""Handlers: what a family of requests brings with it."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from mocketmq.broker.broker import Broker
from mocketmq.remoting.channel import Channel
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.settings import Settings

Header = TypeVar("Header")


class Call(NamedTuple, Generic[Header]):
    """One request on its way through a handler; who is not ``is_known`` may look, and change nothing.

    Without ``may_wait`` it is answered at once, as too many wait already.
    """

    broker: Broker
    settings: Settings
    channel: Channel
    command: Command
    header: Header
    is_known: bool = True
    may_wait: bool = True


class Reply(NamedTuple):
    """What a request is answered. Clients want every value of ``ext`` as text (sheet 12.1)."""

    ext: Mapping[str, str] = MappingProxyType({})
    body: bytes = b""
    code: int = ResponseCode.SUCCESS
    remark: str | None = None


Handler = Callable[[Call[Any]], Awaitable[Reply]]
"""Raises an EmulatorError for what is refused."""


class Request(NamedTuple):
    """A request that this door takes; ``names`` are those on the wire of fields that are called otherwise."""

    header: type[Any]
    handler: Handler
    names: Mapping[str, str] = MappingProxyType({})


class Family(NamedTuple):
    """Requests that belong together."""

    name: str
    requests: Mapping[RequestCode, Request]
