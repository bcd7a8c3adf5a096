"""A route of the JSON API: its input and output, declared once for the server and the OpenAPI document."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from aiohttp import web
from msgspec import UNSET

from mocketmq.broker.broker import Broker
from mocketmq.clock import steady_us
from mocketmq.doors import Doors
from mocketmq.errors import EmulatorError
from mocketmq.faults.fault import FaultyRequest
from mocketmq.faults.rule import Operation
from mocketmq.http_api.bodies import Bodies
from mocketmq.http_api.faulty import clients_of, serve_with_faults
from mocketmq.http_api.fields import Input, NoInput
from mocketmq.http_api.reports import Reports
from mocketmq.http_api.request import (
    LONG_BYTES,
    client_of,
    decode_long,
    decoder,
    is_lost,
    parameters_of,
)
from mocketmq.settings import Settings

JSON = "application/json"
_HEADERS = {"Content-Type": JSON, "X-Content-Type-Options": "nosniff"}

Handler = Callable[..., Awaitable[object]]
"""``handler(call, parameters)``, or ``handler(call, parameters, body)`` for a route that takes a body."""


class Route(NamedTuple):
    """One method of one path.

    ``parameters`` are those of path and query. ``answer`` is the type of the JSON response, or the media type
    of another one. ``errors`` are those of this route, beside those of every request. ``links`` are OpenAPI
    link objects by the name of another handler.
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
    may_create: bool = False  # answers 201 when it created something
    is_open: bool = False  # needs no token
    operation: Operation | None = None  # how fault rules name it; None: it is never faulty
    errors: Sequence[type[EmulatorError]] = ()
    links: Mapping[str, Mapping[str, object]] = {}
    events: Mapping[str, type] = {}  # of an event stream: the data of each kind of event


class RouteGroup(NamedTuple):
    """Routes that belong together."""

    name: str
    summary: str
    routes: Sequence[Route]


class Created(NamedTuple):
    """The answer of a handler that created something."""

    answer: object


class Api:
    """What handlers share: broker, settings, counters, open doors, and metrics of other protocols."""

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        run: int,
        bodies: Bodies,
        route_groups: Sequence[RouteGroup],
        more_metrics: Sequence[Callable[[], Iterable[Any]]],
        doors: Callable[[], Doors],
    ) -> None:
        self.broker = broker
        self.settings = settings
        self.run = run
        self.bodies = bodies
        self.route_groups = route_groups
        self.more_metrics = more_metrics
        self.doors = doors
        self.reports = Reports(broker, settings.data)
        self.is_ready = False
        self.requests: Counter[tuple[str, str, int]] = Counter()  # by method, path template and status
        self._started_us = steady_us()

    @property
    def uptime_us(self) -> int:
        """Real microseconds since the start."""
        return steady_us() - self._started_us


class ApiCall:
    """One request, as a handler gets it."""

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
        """Whether the client has closed its connection, so that the response reaches nobody."""
        return is_lost(self.request)


class Endpoint:
    """A route with its decoder and encoder."""

    def __init__(self, api: Api, route: Route) -> None:
        self.route = route
        self._api = api
        self._kind = route.body or NoInput
        self._decode = None if route.body is None else decoder(route.body)
        self._encode = msgspec.json.Encoder().encode

    async def serve(self, request: web.BaseRequest, in_path: dict[str, str]) -> web.StreamResponse:
        """Decode the request, call the handler, encode its answer. Raises EmulatorError."""
        route = self.route
        call = ApiCall(self._api, request)
        parameters = parameters_of(request, in_path, route.parameters)
        inputs = [parameters]
        if self._decode is not None:
            content = await self._api.bodies.read(request)
            if route.is_body_optional and not content:
                content = b"{}"
            if len(content) <= LONG_BYTES:
                inputs.append(self._decode(content))
            else:
                inputs.append(await decode_long(content, self._kind, self._api.bodies.turns))
        if self._api.broker.faults.of_requests and route.operation:
            answer = await self._serve_with_faults(call, route.operation, inputs)
        else:
            answer = await route.handler(call, *inputs)
        if isinstance(answer, web.StreamResponse):
            return answer
        status = route.status
        if isinstance(answer, Created):
            answer, status = answer.answer, 201
        return web.Response(body=self._encode(answer), status=status, headers=_HEADERS)

    async def _serve_with_faults(self, call: ApiCall, operation: str, inputs: Sequence[Input]) -> object:
        def find(name: str) -> str | None:
            return next((value for one in inputs if isinstance(value := getattr(one, name, None), str)), None)

        handler, request = self.route.handler, call.request
        names = operation, handler.__name__
        faulty = FaultyRequest(
            "http", names, find("topic"), find("group"), clients_of(request), find("message_id")
        )
        return await serve_with_faults(
            call.broker.faults,
            faulty,
            request,
            lambda: handler(call, *inputs),
            lambda answer: getattr(answer, "message_id", None),
        )


def given(value: Any) -> Any:
    """The value of an optional field; None if it was left out."""
    return None if value is UNSET else value
