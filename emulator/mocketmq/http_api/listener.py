"""An HTTP port and its protocols. The first segment of the path determines the protocol of a request."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from mocketmq.door_tap import DoorTap, HttpAnswerMade, HttpRequestRead
from mocketmq.http_api import web
from mocketmq.http_api.answers import CountedRequest
from mocketmq.http_api.json_response import body_of
from mocketmq.http_api.page_guard import PageGuard
from mocketmq.http_api.problem import HttpError, problem_response
from mocketmq.open_ports import BrokerDoors, OpenPort

UNMATCHED = "unmatched"
"""Path template under which requests without a matching route are counted."""
_RECORDED: Final = ("v1", "topics")
"""First path segments of the recorded protocols. The console's files, metrics and health are not recorded."""


class RoutedResponse(NamedTuple):
    """A response, and the path template under which the request is counted."""

    template: str
    response: web.StreamResponse


HttpHandler = Callable[[web.BaseRequest], Awaitable[RoutedResponse]]
"""Handles all requests of a protocol. A handler must not raise anything but CancelledError."""


class PackedBodyError(HttpError):
    """The body is compressed. Decompression would block the event loop, and no SDK compresses."""

    status = 415
    field = "Content-Encoding"
    allowed = "identity, or no such header"

    def __init__(self, encoding: str) -> None:
        super().__init__(f"Content-Encoding is {encoding[:80]!r}; send the body as it is")
        self.headers = {"Accept-Encoding": "identity"}


class Listener(NamedTuple):
    """A port, the handlers of paths by their first segment, and the handler of all other paths.

    Other sites may link to paths whose first segment is in ``pages``.
    """

    door: str  # the port's name
    port: int
    guard: PageGuard
    by_segment: Mapping[str, HttpHandler]
    otherwise: HttpHandler
    pages: Collection[str] = ()

    def answer(self, request: web.BaseRequest) -> Awaitable[RoutedResponse]:
        """Pass the request to the handler of its path.

        Refuses a request from a page of another site, and a request with a compressed body.
        """
        segment = request.rel_url.raw_path[1:].partition("/")[0]
        try:
            self.guard.check(request, may_be_linked=segment in self.pages)
            encoding = request.headers.get("Content-Encoding", "identity")
            if encoding.lower() != "identity":
                raise PackedBodyError(encoding)
        except HttpError as error:
            return _refused(error)
        return self.by_segment.get(segment, self.otherwise)(request)


async def _refused(error: HttpError) -> RoutedResponse:
    return RoutedResponse(UNMATCHED, problem_response(error))


class OtherDoors(NamedTuple):
    """The handlers and ports that other protocols add to the HTTP server."""

    by_segment: Mapping[str, HttpHandler]  # handlers on the server's own port, by the first path segment
    listeners: Sequence[Listener]  # listeners on ports of their own
    metrics: Sequence[Callable[[], Iterable[Any]]]
    doors: Mapping[str, OpenPort]  # ports that are already open, by name
    brokers: Mapping[str, BrokerDoors]  # open ports of each broker, if there are several
    name_servers: Sequence[OpenPort]  # open ports of all name servers, if there are several


class HttpTap:
    """Reports requests of the JSON API and of Aliyun's protocol, and their responses, to the ``DoorTap``.

    A request is reported when its body has been read, and thus before the request takes effect.
    """

    def __init__(self, tap: DoorTap) -> None:
        self._tap = tap

    async def answer(self, listener: Listener, request: CountedRequest, connection: int) -> RoutedResponse:
        """Serve the request through the listener; report the request and its response."""
        segment = request.rel_url.raw_path[1:].partition("/")[0]
        if segment not in _RECORDED:
            return await listener.answer(request)
        request.tap_connection = connection
        if not request.body_exists:
            self.read(request, b"")
        routed = await listener.answer(request)
        if request.tap_number < 0:  # the request was refused before its body was read
            self.read(request, b"")
        response = routed.response
        made = HttpAnswerMade(response.status, response.content_type, body_of(response))
        self._tap.answered(request.tap_number, made)
        return routed

    def read(self, request: web.BaseRequest, body: bytes) -> None:
        """Report a request with its body, unless it was already reported."""
        counted = cast(CountedRequest, request)  # the server creates all requests with this class
        if counted.tap_connection >= 0 > counted.tap_number:
            read = HttpRequestRead(request.method, request.raw_path, request.content_type, body)
            counted.tap_number = self._tap.asked(counted.tap_connection, read)
