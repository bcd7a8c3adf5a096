"""The fast path for sends through the JSON API, which needs neither aiohttp's parser nor a task.

A client repeats the head of its sends byte for byte, except for the length of the body. aiohttp parses it
each time, and serves each request in a task of its own, which takes longer than the send itself. The fast
path therefore remembers the heads of sends that succeeded on the general path, and serves further requests
that begin with the same bytes and have arrived completely.

The fast path interprets nothing of HTTP but the length of the body: at the start of a request, the same bytes
always have the same meaning. It leaves to the general path everything that is not plain, and all messages
that the broker refuses before it stores them.
"""

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from aiohttp.http import HttpVersion11
from msgspec import UNSET

from mocketmq.broker.sending.sender import PlainSends, SendResult
from mocketmq.errors import EmulatorError
from mocketmq.http_api import web
from mocketmq.http_api.json_response import JSON, head_of_response
from mocketmq.http_api.problem import MEDIA_TYPE, problem_of
from mocketmq.http_api.request import LONG_BYTES
from mocketmq.http_api.route import Api, ApiSender, Endpoint
from mocketmq.http_api.router import Router
from mocketmq.http_api.sending import SENDING, MessageIn, message_of, send, sent_of

if TYPE_CHECKING:
    from mocketmq.http_api.connection import HttpConnection

KNOWN_HEADS: Final = 256
HEAD_BYTES: Final = 2_048
"""Maximum length of a head that is remembered."""
_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ([1-9][0-9]{0,5})\r\n")


class RequestHead(NamedTuple):
    """The head of a request, of which only the length of the body is interpreted."""

    key: bytes  # the head without the digits of its Content-Length
    size: int
    body_size: int  # 0 without a Content-Length, or if it is written in an unusual way


def head_of(data: bytes) -> RequestHead | None:
    """The head of the request with which ``data`` begins; None if it is incomplete or very long."""
    end = data.find(_END, 0, HEAD_BYTES)
    if end < 0:
        return None
    length = _LENGTH.search(data, 0, end + 2)
    if length is None:
        return RequestHead(data[:end], end + 4, 0)
    return RequestHead(data[: length.start(1)] + data[length.end(1) : end], end + 4, int(length[1]))


class FastSends:
    """The sends on the fast path, of all connections of the JSON API. ``begun`` counts them.

    While ``log`` shows debug messages, there is no fast path, because the general path logs each request.
    """

    def __init__(self, api: Api, router: Router[Endpoint], log: logging.Logger) -> None:
        self.begun = 0
        self._in_progress = 0
        self._ended: asyncio.Future[None] | None = None  # completed when no send is in progress
        self._api = api
        self._log = log
        self._router = router
        self._route = next(route for route in SENDING.routes if route.handler is send)
        self._decode = msgspec.json.Decoder(MessageIn).decode
        self._topics: OrderedDict[bytes, str] = OrderedDict()  # by known head, oldest first
        self._last = 0  # identity of the connection of the last send

    def learn(self, request: web.BaseRequest, template: str, status: int, head: RequestHead | None) -> None:
        """Remember the head of a request served on the general path, if it is a send that succeeded."""
        route = self._route
        if head is None or head.key in self._topics or template != route.path or status != route.status:
            return
        headers = request.headers
        if request.content_length != head.body_size or request.query_string:
            return
        if request.version != HttpVersion11 or not headers.get("Host") or "Expect" in headers:
            return
        path = request.rel_url.raw_path
        self._topics[head.key] = self._router.find_endpoint(route.method, path).parameters["topic"]
        if len(self._topics) > KNOWN_HEADS:
            self._topics.popitem(last=False)

    def begin(self, connection: "HttpConnection", head: RequestHead, data: bytes) -> bool:
        """Begin a send that consists of ``data``. Returns False to leave the request to the general path."""
        topic = self._topics.get(head.key)
        if topic is None or len(data) != head.size + head.body_size or head.body_size > LONG_BYTES:
            return False
        api = self._api
        if not api.is_ready or api.broker.faults.of_requests or self._log.isEnabledFor(logging.DEBUG):
            return False
        sender, writer = api.broker.sender, api.broker.store.writer
        try:
            message = self._decode(data[head.size :])
            if (
                message.delay is not UNSET
                or message.delay_ms is not UNSET
                or message.start_deliver_ms is not UNSET
            ):
                return False
            sending = message_of(ApiSender(api.broker, api.settings, connection.client), topic, message)
            accepted = sender.intake.accept_run([sending], drops_wait=False)
        except Exception:  # noqa: BLE001 - the general path reports it
            return False
        if accepted is None:
            return False
        begun = _FastSend(self, connection)
        # A single client that sends one message at a time has nothing to share a transaction with.
        is_lone = id(connection) == self._last and not self._in_progress
        self._last = id(connection)
        writer.hold()
        try:
            sender.begin_plain(begun, accepted)
            self.begun += 1
            self._in_progress += 1
        except EmulatorError:
            return False
        finally:
            writer.release(at_once=is_lone)
        return True

    def end(self, status: int) -> None:
        """Count the end of a send."""
        self._api.requests[self._route.method, self._route.path, status] += 1
        self._in_progress -= 1
        if self._ended is not None and not self._in_progress:
            self._ended.set_result(None)

    async def finish(self, grace_s: float) -> None:
        """Return when no send is in progress, at the latest after ``grace_s`` real seconds."""
        if self._in_progress:
            self._ended = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._ended], timeout=grace_s)


class _FastSend(PlainSends):
    """A send on the fast path, and its connection."""

    __slots__ = ("_connection", "_sends")

    def __init__(self, sends: FastSends, connection: "HttpConnection") -> None:
        self._sends = sends
        self._connection = connection

    def kept(self, sent: Sequence[SendResult | EmulatorError]) -> None:
        result = sent[0]
        if isinstance(result, EmulatorError):
            self.refused(result)
        else:
            self._respond(201, msgspec.json.encode(sent_of(result)) + b"\n", JSON)

    def refused(self, error: EmulatorError) -> None:
        problem = problem_of(error)
        self._respond(problem.status, msgspec.json.encode(problem) + b"\n", MEDIA_TYPE)

    def _respond(self, status: int, body: bytes, media_type: str) -> None:
        response = head_of_response(status, len(body), media_type) + body
        self._sends.end(status)
        self._connection.respond(response)
