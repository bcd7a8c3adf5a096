"""Refuse changes that another site's page asks for in a browser of somebody who can reach the broker.

A browser's ``Origin`` says which site's page made a request (Fetch standard, §3.2); others do not send it.
"""

from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from mocketmq.http_api.problem import HttpError
from mocketmq.http_api.request import host_of

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class ForeignOriginError(HttpError):
    """The request comes from a page of another site."""

    status = 403
    field = "Origin"

    def __init__(self, origin: str, host: str) -> None:
        super().__init__(
            f"a page of {origin} may not change anything here: only pages of {host} may,"
            " and programs that send no Origin header"
        )
        self.allowed = f"no Origin header, or that of {host}"


def check_origin(request: web.BaseRequest) -> None:
    """Raise ForeignOriginError for a change that a page of another host or port asks for."""
    origin = request.headers.get("Origin")
    if origin is None or request.method in _SAFE:
        return
    host = host_of(request)
    if urlsplit(origin).netloc.lower() != host.lower():
        raise ForeignOriginError(origin[:200], host)
