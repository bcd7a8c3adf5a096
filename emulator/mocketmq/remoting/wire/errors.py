"""Errors of this protocol alone, and the response code of any error."""

from collections.abc import Sequence

from mocketmq.errors import EmulatorError, RefusedError, wire_codes
from mocketmq.remoting.wire.codes import ResponseCode
from mocketmq.remoting.wire.command import Command


class RemotingError(RefusedError):
    """A refusal that has a response code of its own."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(remark)
        self.code = code


class FrameError(RemotingError):
    """Bytes are no frame, or the frame is too large. The connection has to be closed.

    ``before`` are the commands that were complete before it.
    """

    before: Sequence[Command] = ()

    def __init__(self, remark: str) -> None:
        super().__init__(ResponseCode.SYSTEM_ERROR, remark)


def code_of(error: EmulatorError) -> int:
    """The response code by which clients know the error."""
    return error.code if isinstance(error, RemotingError) else wire_codes(error).remoting
