"""Declarations of requests, and the arguments and results of their handlers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import Enum, auto
from functools import cached_property
from typing import Any, TypeVar, get_args

from mocketmq.broker.registry.static_topic import QueueMapping
from mocketmq.errors import EmulatorError, as_emulator_error
from mocketmq.remoting.access_rule import AccessRule
from mocketmq.remoting.call import RemotingCall, Response
from mocketmq.remoting.lane import Effect
from mocketmq.remoting.wire.codes import RequestCode, code_of
from mocketmq.remoting.wire.header import HeaderReader, NoHeader, RequestHeader
from mocketmq.rocketmq_versions import V5_0_0

Handler = Callable[[RemotingCall[Any]], Awaitable[Response]]
"""Serves a request. To refuse the request, it raises an EmulatorError."""
_H = TypeVar("_H", bound=Handler)


Reply = Callable[[Sequence[Response]], None]
"""Sends the responses to a run of requests on the fast path, in their order."""
FastPath = Callable[[Sequence[RemotingCall[Any]], Reply], bool]
"""Begins a run of plain requests without waiting. For any other run it returns False without any effect.

All errors are ignored, because the handler is then called for each request, and raises the same error.
"""


LogicalHandler = Callable[[RemotingCall[Any], QueueMapping, Handler], Awaitable[Response]]
"""Serves a request for a logical queue of a static topic, by calling the handler of ordinary queues.

The header has the queue's number as the client sent it. The mapping is the broker's.
"""


class StraightAnswer:
    """Given to the writer instead of a future, for a request on the fast path.

    ``respond`` makes the response from the result of the work.
    """

    __slots__ = ("_reply", "_respond")

    def __init__(self, reply: Reply, respond: Callable[[Any], Response]) -> None:
        self._reply = reply
        self._respond = respond

    def done(self) -> bool:
        """Always false, because the response must be sent in any case."""
        return False

    def set_result(self, result: Any, /) -> None:
        """Send the response, made from the result of the work."""
        try:
            response = self._respond(result)
        except Exception as error:  # noqa: BLE001 - every error is returned to the client
            response = refused(as_emulator_error(error))
        self._reply([response])

    def set_exception(self, error: EmulatorError, /) -> None:
        """Send the refusal, because the work failed."""
        self._reply([refused(error)])


def refused(error: EmulatorError, server_version: int = V5_0_0) -> Response:
    """The response to a refused request."""
    # The text may quote a lone surrogate, which UTF-8 cannot encode.
    return Response(
        code=code_of(error, server_version), remark=str(error).encode(errors="backslashreplace").decode()
    )


class LongPoll(Enum):
    """How to answer a long poll when too many are waiting."""

    REFUSED = auto()
    ANSWERED_AT_ONCE = auto()


@dataclass
class RequestFamily:
    """A group of related requests; ``name`` is its heading in the documentation."""

    name: str
    requests: list["Request"] = field(default_factory=list)


@dataclass(eq=False)
class Request:
    """The declaration of a request that clients may send, which decorates the handler of the request.

    ``names`` maps fields of the header's class to names on the wire where the names differ. ``long_poll`` is
    set for requests that may wait for messages. ``fast_path`` serves the common case without a task, and
    with ``has_runs`` several successive requests at once. ``handler`` serves all other cases. ``effect`` is
    set for requests that read or change a group's offsets, because these keep their order on a connection.
    ``logical`` serves the request for a logical queue of a static topic. Like long polls, ``is_reading``
    requests are cancelled when their client disconnects. A slave serves ``is_for_slaves`` requests like its
    broker.

    The handler's annotation names the header class. A handler that mypyc compiles must be declared with
    ``header`` instead, because compiled functions have no annotations.
    """

    family: RequestFamily = field(repr=False)
    code: RequestCode
    _: KW_ONLY
    access: AccessRule
    header: type[RequestHeader] = NoHeader
    names: Mapping[str, str] = field(default_factory=dict)
    long_poll: LongPoll | None = None
    fast_path: FastPath | None = None
    has_runs: bool = False
    effect: Effect | None = None
    logical: LogicalHandler | None = None
    is_reading: bool = False
    is_for_slaves: bool = False

    handler: Handler = field(init=False)

    def __call__(self, handler: _H) -> _H:
        """Add the request with its handler to the family."""
        if self.header is NoHeader:
            call, _ = handler.__annotations__.values()
            [self.header] = get_args(call)
        self.handler = handler
        self.family.requests.append(self)
        return handler

    @cached_property
    def reader(self) -> HeaderReader:
        """The reader that converts a command's ext fields to the header."""
        return HeaderReader(self.header, self.names)
