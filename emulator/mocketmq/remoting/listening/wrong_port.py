"""Detects HTTP requests on a remoting port, and answers them with an HTTP response that names the mistake."""

import re
from typing import Final

WRONG_PORT: Final = (
    "this is an HTTP request, but the port serves RocketMQ clients; the JSON API listens on --http-port"
)
_BODY: Final = f"{WRONG_PORT}\n".encode()
ANSWER: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_BODY), _BODY)
)
_REQUEST: Final = re.compile(rb"[A-Z]{3,10} \S+ HTTP/")


def is_http(data: bytes) -> bool:
    """Whether the first bytes of a connection begin an HTTP request."""
    return _REQUEST.match(data) is not None
