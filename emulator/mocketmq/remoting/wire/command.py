"""A command: what a frame carries, request or answer (RemotingCommand.java of 4.9.8; sheet 1.2 to 1.4)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mocketmq.remoting.wire.identity import VERSION
from mocketmq.rocketmq_versions import V3_4_9

_RESPONSE: Final = 1
_ONEWAY: Final = 2

JSON: Final = 0
ROCKETMQ: Final = 1
"""How a header is written."""


@dataclass(slots=True, kw_only=True)
class Command:
    """``opaque`` ties an answer to its request, on one connection and in one direction."""

    code: int
    opaque: int = 0
    flag: int = 0
    ext: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    remark: str | None = None
    language: str = "JAVA"
    version: int = VERSION
    serialization: int = JSON

    @property
    def is_response(self) -> bool:
        """Whether it answers a request that we sent."""
        return bool(self.flag & _RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether nobody waits for an answer."""
        return bool(self.flag & _ONEWAY)

    @property
    def tells_max_retries(self) -> bool:
        """Whether its sender is new enough to say how often a message may be retried."""
        return self.version >= V3_4_9

    def answer(self, code: int, ext: Mapping[str, str], body: bytes, remark: str | None) -> "Command":
        """The answer to this request. In its own header form: some clients know only one (sheet 12.1)."""
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
        """A request of the broker to a client, which does not answer it."""
        return cls(code=code, opaque=opaque, flag=_ONEWAY, ext=ext, body=body)

    @classmethod
    def request(cls, code: int, opaque: int, ext: Mapping[str, str], body: bytes = b"") -> "Command":
        """A request of the broker to a client, which answers it."""
        return cls(code=code, opaque=opaque, ext=ext, body=body)
