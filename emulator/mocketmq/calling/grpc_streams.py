"""The beginning of a client's gRPC stream."""

from typing import Any

from grpclib.client import Stream


async def begin(stream: Stream[Any, Any]) -> None:
    """Connect if necessary, and send the headers of the request.

    Raises:
        OSError: the peer cannot be reached, or the connection ended before the headers were sent.
    """
    try:
        await stream.send_request()
    except AttributeError as error:
        if error.name != "_transport":
            raise
        # If the peer dies between the handshake and the first request, the channel of grpclib 0.4.9 returns a
        # lost connection, which has no transport.
        raise ConnectionResetError("the connection was lost before the request was sent") from error
