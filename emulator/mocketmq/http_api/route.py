"""A route of the JSON API: what it takes and answers, declared once for the server and for the document."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from aiohttp import web
from msgspec import UNSET

from mocketmq.broker.broker import Broker
from mocketmq.clock import steady_us
from mocketmq.errors import EmulatorError
from mocketmq.http_api.fields import Input, NoInput
from mocketmq.http_api.request import (
    client_of,
    content_of,
    decoder,
    is_lost,
    max_body_bytes,
    parameters_of,
)
from mocketmq.settings import Settings

JSON = "application/json"
_HEADERS = {"Content-Type": JSON}

Handler = Callable[..., Awaitable[object]]
"""``handler(call, parameters)``, or ``handler(call, parameters, body)`` for a route that takes a body."""


class Route(NamedTuple):
    """One method of one path.

    ``parameters`` are those of the path and, beyond these, of the query. ``answer`` is the type that is
    sent as JSON, or the media type of anything else. ``errors`` are those of its own; what can go wrong
    with every request is not repeated. ``links`` say, by the name of another handler, what of this answer
    it can be given (OpenAPI link objects).
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answer: type | str
    parameters: type[Input] = NoInput
    body: type[Input] | None = None
    is_body_optional: bool = False
    status: int = 200
    may_create: bool = False  # answers 201 instead when something new was made
    is_open: bool = False  # needs no token
    errors: Sequence[type[EmulatorError]] = ()
    links: Mapping[str, Mapping[str, object]] = {}


class Family(NamedTuple):
    """Routes that belong together."""

    name: str
    summary: str
    routes: Sequence[Route]


class Created(NamedTuple):
    """The answer of a handler that made something new."""

    answer: object


class Api:
    """What the handlers work with, and what they count; ``more_metrics`` are those of other doors."""

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        run: int,
        families: Sequence[Family],
        more_metrics: Sequence[Callable[[], Iterable[Any]]] = (),
    ) -> None:
        self.broker = broker
        self.settings = settings
        self.run = run
        self.families = families
        self.more_metrics = more_metrics
        self.is_ready = False
        self.requests: Counter[tuple[str, str, int]] = Counter()  # by method, path template and status
        self.max_body_bytes = max_body_bytes(settings)
        self._started_us = steady_us()

    @property
    def uptime_us(self) -> int:
        """How long it has been there, in real microseconds."""
        return steady_us() - self._started_us


class Call:
    """One request on its way through a handler."""

    __slots__ = ("api", "broker", "request")

    def __init__(self, api: Api, request: web.BaseRequest) -> None:
        self.api = api
        self.broker = api.broker
        self.request = request

    @property
    def client(self) -> str:
        """The client's address and port."""
        return client_of(self.request)

    @property
    def is_lost(self) -> bool:
        """Whether the client has gone, so that the answer will reach nobody."""
        return is_lost(self.request)


class Endpoint:
    """A route made ready to be served."""

    def __init__(self, api: Api, route: Route) -> None:
        self.route = route
        self._api = api
        self._decode = None if route.body is None else decoder(route.body)
        self._encode = msgspec.json.Encoder().encode

    async def serve(self, request: web.BaseRequest, in_path: dict[str, str]) -> web.Response:
        """Decode, call the handler, encode. Raises an EmulatorError for what is refused."""
        route = self.route
        call = Call(self._api, request)
        parameters = parameters_of(request, in_path, route.parameters)
        if self._decode is None:
            answer = await route.handler(call, parameters)
        else:
            content = await content_of(request, self._api.max_body_bytes)
            if route.is_body_optional and not content:
                content = b"{}"
            answer = await route.handler(call, parameters, self._decode(content))
        if isinstance(answer, web.Response):
            return answer
        status = route.status
        if isinstance(answer, Created):
            answer, status = answer.answer, 201
        return web.Response(body=self._encode(answer), status=status, headers=_HEADERS)


def given(value: Any) -> Any:
    """An optional field's value, None when it was left out."""
    return None if value is UNSET else value
