"""Reports the requests of the JSON API and of Aliyun's protocol to the tap of the doors."""

from typing import Final

from mocketmq.door_tap import DoorTap, HttpAnswerMade, HttpRequestRead
from mocketmq.http_api import web
from mocketmq.http_api.listener import Listener, RoutedResponse

_RECORDED: Final = ("v1", "topics")
"""First segments of the paths of both protocols. The console's files, metrics and health are left out."""
_CONNECTION, _NUMBER = "tap_connection", "tap_number"
"""Names under which a request keeps the numbers of its connection and of itself."""


class HttpTap:
    """Reports a request once its body has been read, so before it takes effect, and then its answer."""

    def __init__(self, tap: DoorTap) -> None:
        self._tap = tap

    async def answer(self, listener: Listener, request: web.BaseRequest, connection: int) -> RoutedResponse:
        """Answer the request like the listener, and report both."""
        segment = request.rel_url.raw_path[1:].partition("/")[0]
        if segment not in _RECORDED:
            return await listener.answer(request)
        request[_CONNECTION] = connection
        if not request.body_exists:
            self.read(request, b"")
        routed = await listener.answer(request)
        if _NUMBER not in request:  # refused before its body was read
            self.read(request, b"")
        response = routed.response
        body = (response.body or b"") if isinstance(response, web.Response) else None
        if body is not None and not isinstance(body, bytes):
            body = None
        made = HttpAnswerMade(response.status, response.content_type, body)
        self._tap.answered(request[_NUMBER], made)
        return routed

    def read(self, request: web.BaseRequest, body: bytes) -> None:
        """Report a request with its body, once."""
        if _CONNECTION in request and _NUMBER not in request:
            read = HttpRequestRead(request.method, request.raw_path, request.content_type, body)
            request[_NUMBER] = self._tap.asked(request[_CONNECTION], read)
