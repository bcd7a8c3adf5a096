"""What only this protocol can refuse, and what clients are told of any error."""

from collections.abc import Sequence

from mocketmq.errors import EmulatorError, RefusedError, wire_codes
from mocketmq.remoting.wire.codes import ResponseCode
from mocketmq.remoting.wire.command import Command


class RemotingError(RefusedError):
    """A refusal with a code of this protocol's own."""

    def __init__(self, code: ResponseCode, remark: str) -> None:
        super().__init__(remark)
        self.code = code


class FrameError(RemotingError):
    """Bytes that are no frame, or one that is too large: the connection cannot go on (sheet 1.1).

    ``before`` are the commands that came in whole before them.
    """

    before: Sequence[Command] = ()

    def __init__(self, remark: str) -> None:
        super().__init__(ResponseCode.SYSTEM_ERROR, remark)


def code_of(error: EmulatorError) -> int:
    """The ResponseCode of an error."""
    return error.code if isinstance(error, RemotingError) else wire_codes(error).remoting
