"""HTTP listeners: a port, and the protocols served on it by the first segment of the path."""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from aiohttp import web

UNMATCHED = "unmatched"
"""The path template of requests that match no route."""


class RoutedResponse(NamedTuple):
    """A response, and the template of its path, by which requests are counted."""

    template: str
    response: web.StreamResponse


HttpHandler = Callable[[web.BaseRequest], Awaitable[RoutedResponse]]
"""Answers every request of a protocol; raises nothing but cancellation."""


class Listener(NamedTuple):
    """A port, the handlers of paths by their first segment, and the handler of all other paths."""

    door: str  # its name among the doors
    port: int
    by_segment: Mapping[str, HttpHandler]
    otherwise: HttpHandler

    async def answer(self, request: web.BaseRequest) -> RoutedResponse:
        """Let the handler of the path answer."""
        segment = request.rel_url.raw_path[1:].partition("/")[0]
        return await self.by_segment.get(segment, self.otherwise)(request)
