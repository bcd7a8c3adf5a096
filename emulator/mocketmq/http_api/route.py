"""Routes of the JSON API. One declaration of a route serves both the server and the OpenAPI document.

The annotations of a route's handler declare its input and output: the parameters of path and query, the body
if it takes one, and the response.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple, TypeVar, cast, get_args

import msgspec
from msgspec import UNSET

from mocketmq.access.accounts import Account
from mocketmq.broker.broker import Broker
from mocketmq.clock import steady_us
from mocketmq.errors import EmulatorError
from mocketmq.event_loop import EventLoopTurns
from mocketmq.faults.injector import RequestAttributes
from mocketmq.faults.rule import Operation
from mocketmq.http_api import web
from mocketmq.http_api.access import CLUSTER_GET, CLUSTER_UPDATE, Needs, check_needs, find_field
from mocketmq.http_api.bodies import Bodies
from mocketmq.http_api.fault_injection import clients_of, serve_with_faults
from mocketmq.http_api.fields import Input, NoInput, bound_waits
from mocketmq.http_api.json_response import JsonResponse
from mocketmq.http_api.reports import Reports
from mocketmq.http_api.request import (
    LONG_BYTES,
    client_of,
    decode_long,
    decoder,
    is_lost,
    parameters_of,
)
from mocketmq.open_ports import OpenPorts
from mocketmq.settings import Settings

Handler = Callable[..., Awaitable[object]]
"""``handler(call, parameters)``, or ``handler(call, parameters, body)`` for a route that takes a body."""
_H = TypeVar("_H", bound=Handler)


@dataclass
class RouteGroup:
    """Related routes, under one heading of the OpenAPI document, in the order of their declarations."""

    name: str
    summary: str
    routes: list["Route"] = field(default_factory=list)


@dataclass(eq=False)
class Route:
    """A method on a path. Applied as a decorator, it declares the handler.

    ``errors`` are specific to this route; other errors are common to all requests. ``links`` has OpenAPI link
    objects by handler name.
    """

    group: RouteGroup = field(repr=False)
    request: str  # method and path, such as ``GET /v1/topics``
    summary: str
    _: KW_ONLY
    media_type: str | None = None  # set if the handler makes the response itself
    is_body_optional: bool = False
    is_waiting: bool = False  # whether the setting max_wait limits the waits in its input
    status: int = 200
    is_open: bool = False  # whether requests need no credentials
    needs: Needs | None = None  # permissions; by default GET on the cluster, UPDATE for other methods
    operation: Operation | None = None  # the operation's name in fault rules; None if no rule applies
    errors: Sequence[type[EmulatorError]] = ()
    links: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    events: Mapping[str, type] = field(default_factory=dict)  # types of a stream's events, by kind

    method: str = field(init=False)
    path: str = field(init=False)
    handler: Handler = field(init=False)
    parameters: type[Input] = field(init=False)  # parameters of the path and the query
    body: type[Input] | None = field(init=False)
    answer: type | str = field(init=False)  # type of a JSON response, or another media type
    may_create: bool = field(init=False)  # status 201 if the request creates something

    def __post_init__(self) -> None:
        self.method, self.path = self.request.split()
        self.needs = self.needs or (CLUSTER_GET if self.method == "GET" else CLUSTER_UPDATE)

    def __call__(self, handler: _H) -> _H:
        """Declare the route, with the input and output that the handler's annotations name."""
        _, *inputs, answer = handler.__annotations__.values()
        self.handler = handler
        self.parameters, self.body = (*inputs, None)[:2]
        kinds = get_args(answer) or (answer,)  # such as ``TopicOut | Created``
        self.answer, self.may_create = self.media_type or kinds[0], Created in kinds
        self.group.routes.append(self)
        return handler

    def within(self, settings: Settings) -> "Route":
        """Return the route with its waits limited by the settings."""
        if not self.is_waiting:
            return self
        bounded = copy(self)
        bounded.parameters = bound_waits(self.parameters, settings.max_wait_us)
        bounded.body = self.body and bound_waits(self.body, settings.max_wait_us)
        return bounded


class Created(NamedTuple):
    """The response of a handler that created something."""

    answer: object


@dataclass(eq=False, repr=False)
class Api:
    """The state that handlers share: broker, settings, counters, open ports, other protocols' metrics."""

    broker: Broker
    settings: Settings
    bodies: Bodies
    route_groups: Sequence[RouteGroup]
    more_metrics: Sequence[Callable[[], Iterable[Any]]]
    doors: Callable[[], OpenPorts]

    def __post_init__(self) -> None:
        self.reports = Reports(self.broker, self.settings.data)
        self.turns = EventLoopTurns()
        self.scraping = asyncio.Lock()  # one scrape is served at a time
        self.packing = asyncio.Lock()  # one pack is made and sent at a time
        self.is_ready = False  # whether the broker accepts requests, as ``/readyz`` reports
        self.requests: Counter[tuple[str, str, int]] = Counter()  # by method, path template and status
        self._started_us = steady_us()

    @property
    def uptime_us(self) -> int:
        """Real microseconds since the broker's start."""
        return steady_us() - self._started_us


class ApiSender(NamedTuple):
    """The sender of a message, with the broker and the settings that limit the sender's messages."""

    broker: Broker
    settings: Settings
    host: str  # address and port


class ApiCall:
    """One request, as passed to a handler."""

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
    def sender(self) -> ApiSender:
        """The client as the sender of a message."""
        return ApiSender(self.broker, self.api.settings, self.client)

    @property
    def is_lost(self) -> bool:
        """Whether the client has closed its connection, so that it cannot receive the response."""
        return is_lost(self.request)


class Endpoint:
    """A route with its decoder and encoder."""

    def __init__(self, api: Api, route: Route) -> None:
        self.route = route
        self._api = api
        self._needs = None if route.is_open else route.needs
        self._kind = route.body or NoInput
        self._decode = None if route.body is None else decoder(route.body)
        self._encode = msgspec.json.Encoder().encode

    async def serve(
        self, request: web.BaseRequest, in_path: Mapping[str, str], account: Account | None
    ) -> web.StreamResponse:
        """Decode the request, call the handler, encode its response. Raises EmulatorError.

        ``account`` is None if the sender may do everything.
        """
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
        if account is not None and self._needs is not None:
            check_needs(account, self._needs, inputs, request)
        if self._api.broker.faults.of_requests and route.operation:
            answer = await self._serve_with_faults(call, route.operation, inputs)
        else:
            answer = await route.handler(call, *inputs)
        if route.media_type is not None:
            return cast(web.StreamResponse, answer)
        status = route.status
        if isinstance(answer, Created):
            answer, status = answer.answer, 201
        return JsonResponse(self._encode(answer) + b"\n", status)

    async def _serve_with_faults(self, call: ApiCall, operation: str, inputs: Sequence[Input]) -> object:
        handler, request = self.route.handler, call.request
        names = operation, handler.__name__
        attributes = RequestAttributes(
            "http",
            names,
            find_field(inputs, "topic"),
            find_field(inputs, "group"),
            clients_of(request),
            find_field(inputs, "message_id"),
            call.broker.registry.brokers.only_name,
        )
        return await serve_with_faults(
            call.broker.faults,
            attributes,
            request,
            lambda: handler(call, *inputs),
            lambda answer: getattr(answer, "message_id", None),
        )


def given(value: Any) -> Any:
    """The value of an optional field, or None if the request omits the field."""
    return None if value is UNSET else value
