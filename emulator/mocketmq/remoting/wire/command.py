"""A command: the request or answer in a frame (RemotingCommand.java, 4.9.8)."""

from collections.abc import Mapping
from typing import Final

import msgspec

from mocketmq.message.identity import VERSION
from mocketmq.rocketmq_versions import V3_4_9

_RESPONSE: Final = 1
_ONEWAY: Final = 2

JSON: Final = 0
ROCKETMQ: Final = 1
"""The forms of a header."""


class Command(msgspec.Struct, kw_only=True):
    """``opaque`` ties an answer to its request: it is unique on one connection, in one direction."""

    code: int
    opaque: int = 0
    flag: int = 0
    ext: Mapping[str, str] = {}
    body: bytes = b""
    remark: str | None = None
    language: str = "JAVA"
    version: int = VERSION
    serialization: int = JSON

    @property
    def is_response(self) -> bool:
        """Whether it answers a request of ours."""
        return bool(self.flag & _RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether its sender wants no answer."""
        return bool(self.flag & _ONEWAY)

    @property
    def tells_max_retries(self) -> bool:
        """Whether its sender is new enough to say how often a message may be retried."""
        return self.version >= V3_4_9

    def answer(self, code: int, ext: Mapping[str, str], body: bytes, remark: str | None) -> "Command":
        """The answer to this request, with a header of the same form: some clients read no other."""
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
        """A request to a client that is not to be answered."""
        return cls(code=code, opaque=opaque, flag=_ONEWAY, ext=ext, body=body)

    @classmethod
    def request(cls, code: int, opaque: int, ext: Mapping[str, str], body: bytes = b"") -> "Command":
        """A request to a client that is to be answered."""
        return cls(code=code, opaque=opaque, ext=ext, body=body)
