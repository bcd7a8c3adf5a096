"""A command, that is, the request or response in a frame (RemotingCommand.java, 4.9.8)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from mocketmq.remoting.wire.json_header import read_header
from mocketmq.rocketmq_versions import V3_4_9, V4_9_8

_RESPONSE: Final = 1
_ONEWAY: Final = 2

JSON: Final = 0
ROCKETMQ: Final = 1
"""The two forms of a header."""
NO_EXT: Final[Mapping[str, str]] = MappingProxyType({})


class Command:
    """A request or a response.

    ``opaque`` matches a response to its request. The number is unique on one connection, in one direction.
    ``version`` is the sender's version of RocketMQ; as a client, mocketmq sends the version 4.9.8.
    ``received_us`` is the steady time at which the broker read the request; otherwise it is 0.
    ``frame_bytes`` is the size of the frame from which the command was read; otherwise it is 0.
    ``tap_number`` is the request's number in a recording of requests. ``values`` has the values for the class
    of the request's header if the codec has read them; ``ext`` is then read from the JSON ``header``.
    """

    __slots__ = (
        *("_ext", "_header", "body", "code", "flag", "frame_bytes", "language", "opaque", "received_us"),
        *("remark", "serialization", "tap_number", "values", "version"),
    )

    def __init__(
        self,
        code: int,
        opaque: int = 0,
        flag: int = 0,
        ext: Mapping[str, str] | None = NO_EXT,
        body: bytes = b"",
        remark: str | None = None,
        language: str = "JAVA",
        version: int = V4_9_8,
        serialization: int = JSON,
        frame_bytes: int = 0,
        header: bytes = b"",
        values: tuple[Any, ...] | None = None,
    ) -> None:
        self.code = code
        self.opaque = opaque
        self.flag = flag
        self.body = body
        self.remark = remark
        self.language = language
        self.version = version
        self.serialization = serialization
        self.frame_bytes = frame_bytes
        self.received_us = 0
        self.tap_number = 0
        self.values = values
        self._ext = ext
        self._header = header

    @property
    def ext(self) -> Mapping[str, str]:
        """The ext fields, read when they are first asked for."""
        if self._ext is None:
            self._ext = read_header(self._header)[1]
        return self._ext

    @ext.setter
    def ext(self, ext: Mapping[str, str]) -> None:
        self._ext = ext

    def __repr__(self) -> str:
        body = f"{len(self.body)} bytes"
        return f"<command {self.code}, flag {self.flag}, {dict(self.ext)}, remark {self.remark!r}, {body}>"

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
