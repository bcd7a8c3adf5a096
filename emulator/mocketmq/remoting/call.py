"""The argument and the result of a request's handler."""

from collections.abc import Mapping
from typing import Generic, TypeVar

from mocketmq.broker.broker import Broker
from mocketmq.remoting.channel import RemotingChannel
from mocketmq.remoting.wire.codes import ResponseCode
from mocketmq.remoting.wire.command import NO_EXT, Command
from mocketmq.settings import Settings

HeaderT = TypeVar("HeaderT")


class RemotingCall(Generic[HeaderT]):
    """A request and its context.

    The handler must not change anything for an unauthorized sender. If ``may_wait`` is false, a long poll is
    answered at once, because too many are waiting.
    """

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        channel: RemotingChannel,
        command: Command,
        header: HeaderT,
        is_authorized: bool = True,
        may_wait: bool = True,
    ) -> None:
        self.broker = broker
        self.settings = settings
        self.channel = channel
        self.command = command
        self.header = header
        self.is_authorized = is_authorized
        self.may_wait = may_wait

    def with_header(self, header: HeaderT) -> "RemotingCall[HeaderT]":
        """The same call with another header."""
        return RemotingCall(
            self.broker, self.settings, self.channel, self.command, header, self.is_authorized, self.may_wait
        )


class Response:
    """A handler's result. Every value of ``ext`` must be text, because clients expect that."""

    def __init__(
        self,
        ext: Mapping[str, str] = NO_EXT,
        body: bytes = b"",
        code: int = ResponseCode.SUCCESS,
        remark: str | None = None,
    ) -> None:
        self.ext = ext
        self.body = body
        self.code = code
        self.remark = remark
