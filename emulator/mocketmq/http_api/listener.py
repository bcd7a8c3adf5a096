"""HTTP listeners: a port, and the protocols served on it by the first segment of the path."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from aiohttp import web

from mocketmq.doors import Door
from mocketmq.http_api.page_guard import PageGuard
from mocketmq.http_api.problem import HttpError, problem_response

UNMATCHED = "unmatched"
"""The path template of requests that match no route."""


class RoutedResponse(NamedTuple):
    """A response, and the template of its path, by which requests are counted."""

    template: str
    response: web.StreamResponse


HttpHandler = Callable[[web.BaseRequest], Awaitable[RoutedResponse]]
"""Answers every request of a protocol; raises nothing but cancellation."""


class PackedBodyError(HttpError):
    """The body is packed. Unpacking would hold up the event loop, and no SDK packs."""

    status = 415
    field = "Content-Encoding"
    allowed = "identity, or no such header"

    def __init__(self, encoding: str) -> None:
        super().__init__(f"Content-Encoding is {encoding[:80]!r}; send the body as it is")
        self.headers = {"Accept-Encoding": "identity"}


class Listener(NamedTuple):
    """A port, the handlers of paths by their first segment, and the handler of all other paths.

    ``pages`` are first segments to which pages of other sites may link.
    """

    door: str  # its name among the doors
    port: int
    guard: PageGuard
    by_segment: Mapping[str, HttpHandler]
    otherwise: HttpHandler
    pages: Collection[str] = ()

    async def answer(self, request: web.BaseRequest) -> RoutedResponse:
        """Let the handler of the path answer, unless a page of another site asks."""
        segment = request.rel_url.raw_path[1:].partition("/")[0]
        try:
            self.guard.check(request, may_be_linked=segment in self.pages)
            encoding = request.headers.get("Content-Encoding", "identity")
            if encoding.lower() != "identity":
                raise PackedBodyError(encoding)
        except HttpError as error:
            return RoutedResponse(UNMATCHED, problem_response(error))
        return await self.by_segment.get(segment, self.otherwise)(request)


class OtherDoors(NamedTuple):
    """What other protocols add to the HTTP server."""

    by_segment: Mapping[str, HttpHandler]  # on its port, by the first segment of the path
    listeners: Sequence[Listener]  # on ports of their own
    metrics: Sequence[Callable[[], Iterable[Any]]]
    doors: Mapping[str, Door]  # the ports that are open already, by name
