"""Declarations of requests, and the arguments and results of their handlers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum, auto
from functools import cached_property
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from mocketmq.broker.broker import Broker
from mocketmq.errors import EmulatorError, as_emulator_error
from mocketmq.remoting.access_rule import AccessRule
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.lane import Effect
from mocketmq.remoting.wire.codes import RequestCode, ResponseCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.errors import code_of
from mocketmq.remoting.wire.header import HeaderReader
from mocketmq.settings import Settings

HeaderT = TypeVar("HeaderT")


class RemotingCall(NamedTuple, Generic[HeaderT]):
    """A request and its context.

    An unauthorized sender may read but not change anything. Without ``may_wait`` a long poll is answered at
    once, because too many are waiting.
    """

    broker: Broker
    settings: Settings
    channel: RemotingChannel
    command: Command
    header: HeaderT
    is_authorized: bool = True
    may_wait: bool = True


class Response(NamedTuple):
    """What a handler answers. Every value of ``ext`` is text, as clients want it."""

    ext: Mapping[str, str] = MappingProxyType({})
    body: bytes = b""
    code: int = ResponseCode.SUCCESS
    remark: str | None = None


Handler = Callable[[RemotingCall[Any]], Awaitable[Response]]
"""Raises an EmulatorError to refuse the request."""


Reply = Callable[[Command, Response], None]
"""Answers a request that was begun on the fast path."""
FastPath = Callable[[RemotingCall[Any], Reply], bool]
"""Begins a plain request without waiting; False for one that is not plain, when nothing was done.

What it raises does not count: the handler, which is called then, raises the same.
"""


class StraightAnswer:
    """The writer's waiter for a request on the fast path; ``respond`` makes the answer."""

    __slots__ = ("_command", "_reply", "_respond")

    def __init__(self, command: Command, reply: Reply, respond: Callable[[Any], Response]) -> None:
        self._command = command
        self._reply = reply
        self._respond = respond

    def done(self) -> bool:
        """It always waits."""
        return False

    def set_result(self, result: Any, /) -> None:
        """The work is done."""
        try:
            response = self._respond(result)
        except Exception as error:  # noqa: BLE001 - the client is told of any error
            response = refused(as_emulator_error(error))
        self._reply(self._command, response)

    def set_exception(self, error: EmulatorError, /) -> None:
        """The work has failed."""
        self._reply(self._command, refused(error))


def refused(error: EmulatorError) -> Response:
    """The answer to a request that is refused."""
    # It may quote a lone surrogate, which has no UTF-8.
    return Response(code=code_of(error), remark=str(error).encode(errors="backslashreplace").decode())


class LongPoll(Enum):
    """The answer to a long poll when too many are waiting."""

    REFUSED = auto()
    ANSWERED_AT_ONCE = auto()


@dataclass(frozen=True)
class Request:
    """A request that clients may send, declared once, in the file of its family.

    ``header`` is the class that its ext fields are read into; ``names`` maps its fields to names on the wire
    where these differ. ``long_poll`` is set for requests that may wait for messages. ``fast_path`` serves the
    common case without a task; ``handler`` serves the rest. ``effect`` is set for requests that read or
    change a group's offsets, which keep their order on a connection. ``is_reading`` requests are cancelled
    when their client disconnects, as long polls are.
    """

    code: RequestCode
    header: type[Any]
    handler: Handler
    _: KW_ONLY
    access: AccessRule
    names: Mapping[str, str] = field(default_factory=dict)
    long_poll: LongPoll | None = None
    fast_path: FastPath | None = None
    effect: Effect | None = None
    is_reading: bool = False

    @cached_property
    def reader(self) -> HeaderReader:
        """Reads the header out of a command's ext fields."""
        return HeaderReader(self.header, self.names)


class RequestFamily(NamedTuple):
    """Requests that belong together; ``name`` is their heading in the documentation."""

    name: str
    requests: Sequence[Request]
