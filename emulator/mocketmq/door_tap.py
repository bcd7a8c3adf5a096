"""What the doors report of their requests, for the recording of ``--record-requests``.

A door passes what it has read or made as it is: the recorder makes lines of it on a thread. So a report costs
the event loop little more than an entry in a list.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class DoorTap(Protocol):
    """Receives the reports of all doors. No method waits, or raises an error."""

    def connected(self, broker: int = 0) -> int:
        """Return the number of a new connection. ``broker`` is the index of the one that it reached."""

    def disconnected(self, connection: int) -> None:
        """Report that a connection has ended."""

    def asked(self, connection: int, request: Any) -> int:
        """Report a request. Return its number, which its answer is reported with."""

    def answered(self, number: int, answer: Any) -> None:
        """Report the answer to a request."""


class HttpRequestRead(NamedTuple):
    """A request of the JSON API or of Aliyun's protocol. ``path`` is undecoded, with its query."""

    method: str
    path: str
    media_type: str
    body: bytes


class GrpcRequestRead(NamedTuple):
    """A message of a gRPC client, serialized. ``stream`` tells apart its RPCs on the connection."""

    rpc: str
    stream: int
    headers: Mapping[str, str]  # those that name the client
    language: str
    body: bytes


class GrpcAnswerMade(NamedTuple):
    """The responses to it, serialized."""

    responses: Sequence[bytes]


class HttpAnswerMade(NamedTuple):
    """The answer to it. ``body`` is None if it is a stream."""

    status: int
    media_type: str
    body: bytes | None
