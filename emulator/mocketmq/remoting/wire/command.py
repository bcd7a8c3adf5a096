"""A command, that is, the request or response in a frame (RemotingCommand.java, 4.9.8)."""

from collections.abc import Mapping
from typing import Final

import msgspec

from mocketmq.rocketmq_versions import V3_4_9, V4_9_8

_RESPONSE: Final = 1
_ONEWAY: Final = 2

JSON: Final = 0
ROCKETMQ: Final = 1
"""The two forms of a header."""


class Command(msgspec.Struct):
    """A request or a response.

    ``opaque`` matches a response to its request. The number is unique on one connection, in one direction.
    ``version`` is the sender's version of RocketMQ; as a client, mocketmq sends the version 4.9.8.
    ``received_us`` is the steady time at which the broker read the request; otherwise it is 0.
    ``frame_bytes`` is the size of the frame from which the command was read; otherwise it is 0.
    ``tap_number`` is the request's number in a recording of requests.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    ext: Mapping[str, str] = {}
    body: bytes = b""
    remark: str | None = None
    language: str = "JAVA"
    version: int = V4_9_8
    serialization: int = JSON
    received_us: int = 0
    frame_bytes: int = 0
    tap_number: int = 0

    @property
    def is_response(self) -> bool:
        """Whether the command is a response."""
        return bool(self.flag & _RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether the sender wants no response."""
        return bool(self.flag & _ONEWAY)

    @property
    def tells_max_retries(self) -> bool:
        """Whether the sender is new enough to send the maximum number of retries."""
        return self.version >= V3_4_9

    def answer(self, code: int, ext: Mapping[str, str], body: bytes, remark: str | None) -> "Command":
        """Make the response, with a header of the same form, because some clients read no other form."""
        return Command(
            code=code,
            opaque=self.opaque,
            flag=_RESPONSE,
            ext=ext,
            body=body,
            remark=remark,
            serialization=self.serialization,
        )

    @classmethod
    def oneway(cls, code: int, opaque: int, ext: Mapping[str, str], body: bytes = b"") -> "Command":
        """Make a request that a client must not respond to."""
        return cls(code=code, opaque=opaque, flag=_ONEWAY, ext=ext, body=body)

    @classmethod
    def request(cls, code: int, opaque: int, ext: Mapping[str, str], body: bytes = b"") -> "Command":
        """Make a request that a client must respond to."""
        return cls(code=code, opaque=opaque, ext=ext, body=body)
