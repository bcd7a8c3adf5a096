"""The interface by which the doors report requests and answers, for ``--record-requests``.

A door reports requests and answers unchanged, and the recorder turns them into lines on a thread. A report
therefore costs the event loop little more than appending to a list.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class DoorTap(Protocol):
    """Receives the reports of all doors. No method waits, or raises an error."""

    def connected(self, broker: int = 0) -> int:
        """Return a number for a new connection. ``broker`` is the index of the broker that it reached."""

    def disconnected(self, connection: int) -> None:
        """Report that a connection has ended."""

    def asked(self, connection: int, request: Any) -> int:
        """Report a request. Returns its number, which identifies it when its answer is reported."""

    def answered(self, number: int, answer: Any) -> None:
        """Report the answer to a request."""


class HttpRequestRead(NamedTuple):
    """A request of the JSON API or of Aliyun's protocol. ``path`` is undecoded, with its query."""

    method: str
    path: str
    media_type: str
    body: bytes


class GrpcRequestRead(NamedTuple):
    """A serialized message of a gRPC client. ``stream`` distinguishes the RPCs on its connection."""

    rpc: str
    stream: int
    headers: Mapping[str, str]  # only those that identify the client
    language: str
    body: bytes


class GrpcAnswerMade(NamedTuple):
    """The serialized responses to a gRPC request."""

    responses: Sequence[bytes]


class HttpAnswerMade(NamedTuple):
    """The answer to an HTTP request. ``body`` is None if it is a stream."""

    status: int
    media_type: str
    body: bytes | None
