"""The steps of every JSON request: check the token, find its route, answer errors, count.

It uses aiohttp's low-level server, since aiohttp's application costs a third of a request.
"""

import asyncio
import hmac
import logging
from functools import partial
from typing import Any, Final, cast

from aiohttp import web

from mocketmq.broker.broker import Broker
from mocketmq.clock import US_PER_MS, steady_us
from mocketmq.doors import Door, Doors, with_port
from mocketmq.errors import ListenError, UnauthorizedError
from mocketmq.gate import Gate
from mocketmq.http_api.answers import Answers, CountedRequest
from mocketmq.http_api.bodies import Bodies
from mocketmq.http_api.clients import CLIENTS
from mocketmq.http_api.clock import CLOCK
from mocketmq.http_api.connection import TICK_S, HttpConnection
from mocketmq.http_api.consuming import consuming
from mocketmq.http_api.delayed import DELAYED
from mocketmq.http_api.expectations import verification
from mocketmq.http_api.faults import FAULTS
from mocketmq.http_api.groups import GROUPS
from mocketmq.http_api.listener import UNMATCHED, Listener, OtherDoors, RoutedResponse
from mocketmq.http_api.live import LIVE
from mocketmq.http_api.lookup import LOOKUP
from mocketmq.http_api.operations import OPERATIONS
from mocketmq.http_api.page_guard import PageGuard
from mocketmq.http_api.problem import HttpError, problem_response
from mocketmq.http_api.reporting import REPORTS
from mocketmq.http_api.route import Api, Endpoint, RouteGroup
from mocketmq.http_api.router import Router
from mocketmq.http_api.sending import SENDING
from mocketmq.http_api.topics import TOPICS
from mocketmq.http_api.transactions import TRANSACTIONS
from mocketmq.settings import Settings

log = logging.getLogger(__name__)

GRACE_S = 2.0
"""Real seconds for running requests to end when the server stops; then they are cancelled."""

_PAGES: Final = ("", "console", "docs", "v1", "openapi.json", "metrics", "healthz", "readyz")
"""First segments of what people open in a browser."""

MAX_LINE_BYTES = 1 << 16
"""Longest request line: the longest filter fits with every character percent-encoded."""


class HttpServer:
    """Serve the JSON API, and what other doors add. The app starts, closes it, and sets :attr:`is_ready`."""

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        guard: PageGuard,
        bodies: Bodies,
        others: OtherDoors,
    ) -> None:
        self._settings = settings
        self._doors = dict(others.doors)
        self._api = Api(broker, settings, bodies, route_groups(settings), others.metrics, lambda: self.doors)
        self._expected = f"Bearer {settings.token}".encode() if settings.token else None
        self._router: Router[Endpoint] = Router()
        for group in self._api.route_groups:
            for route in group.routes:
                self._router.add(route.method, route.path, Endpoint(self._api, route))
        names = {
            name
            for group in self._api.route_groups
            for route in group.routes
            if route.operation is not None
            for name in (route.operation, route.handler.__name__)
        }
        broker.faults.declare("http", names)
        self._listeners = (
            Listener("http", settings.http_port, guard, others.by_segment, self._answer, _PAGES),
            *others.listeners,
        )
        self._runners: list[web.ServerRunner] = []
        self._gates: list[Gate] = []
        self._answers = Answers()
        self._connections: dict[Any, HttpConnection] = {}  # by aiohttp's protocol
        self._ticking: asyncio.TimerHandle | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the broker takes requests: what ``/readyz`` answers."""
        return self._api.is_ready

    @is_ready.setter
    def is_ready(self, ready: bool) -> None:
        self._api.is_ready = ready

    @property
    def doors(self) -> Doors:
        """Every open port of the broker, once this server has started."""
        return Doors(**self._doors)

    async def start(self) -> None:
        """Open every port, or none: raises ListenError."""
        try:
            for listener in self._listeners:
                await self._listen(listener)
            self._tick()
        except BaseException:
            await self.close()
            raise

    async def _listen(self, listener: Listener) -> None:
        host, port = self._settings.host, listener.port
        loop = asyncio.get_running_loop()

        def request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> CountedRequest:
            return CountedRequest(message, payload, protocol, writer, task, loop)

        server = web.Server(
            partial(self._serve, listener),
            request_factory=request,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,  # the listener refuses packed bodies
            max_line_size=MAX_LINE_BYTES,
        )
        runner = web.ServerRunner(server, shutdown_timeout=GRACE_S)
        await runner.setup()
        self._runners.append(runner)
        gate = Gate(lambda: HttpConnection(server(), self._connections), partial(_cut, server))
        self._gates.append(gate)
        try:
            opened = await gate.listen_at(host, port)
        except OSError as error:
            raise ListenError(
                f"cannot listen on {host}:{port} for HTTP: {error.strerror or error};"
                " choose another port or address"
            ) from error
        self._doors[listener.door] = Door(opened, f"http://{with_port(host, opened)}")
        if listener.door != "http":  # by that one, rules are ended
            await self._api.broker.outage.add("broker-away", listener.door, gate)

    def _tick(self) -> None:
        """Close connections whose clients are late, and return freed memory to the system after a flood."""
        self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick)
        self._answers.look_after()
        now_us = steady_us()
        for connection in [one for one in self._connections.values() if one.is_late(now_us)]:
            connection.abort()
        self._api.bodies.look_after()

    async def close(self) -> None:
        """Close the ports; cancel requests that still run after GRACE_S. May be called twice."""
        self.is_ready = False
        if self._ticking is not None:
            self._ticking.cancel()
        for gate in self._gates:
            gate.close()
        runners, self._runners = self._runners, []
        await self._api.reports.close()
        await asyncio.gather(*(runner.cleanup() for runner in runners))

    async def _serve(self, listener: Listener, request: web.BaseRequest) -> web.StreamResponse:
        began_us = steady_us() if log.isEnabledFor(logging.DEBUG) else None
        connection = self._connections.get(request.protocol)
        if connection is not None:
            connection.is_answering = True
        load = self._answers.begin(cast(CountedRequest, request))
        try:
            template, response = await listener.answer(request)
            await load.send(response)
        except ConnectionError:  # the client has left
            raise
        except Exception:
            log.exception("%s %s: a defect of mocketmq", request.method, request.rel_url.raw_path)
            raise
        finally:
            load.settle(0)
            if connection is not None:
                connection.answered()
        self._api.requests[request.method, template, response.status] += 1
        if began_us is not None:
            what, took_us = f"{request.method} {request.rel_url.raw_path}", steady_us() - began_us
            log.debug("%s %s: %d in %.1f ms", request.remote, what, response.status, took_us / US_PER_MS)
        return response

    async def _answer(self, request: web.BaseRequest) -> RoutedResponse:
        template = UNMATCHED
        try:
            path = request.rel_url.raw_path
            if self._expected is not None and not self._is_open(request.method, path):
                self._authorize(request, self._expected)
            endpoint, parameters = self._router.find(request.method, path)
            template = endpoint.route.path
            return RoutedResponse(template, await endpoint.serve(request, parameters))
        except Exception as error:  # noqa: BLE001 - every error is answered as a problem
            return RoutedResponse(template, problem_response(error))

    def _is_open(self, method: str, path: str) -> bool:
        try:
            return self._router.find(method, path).endpoint.route.is_open
        except HttpError:
            return False  # only who has the token is told which paths there are

    def _authorize(self, request: web.BaseRequest, expected: bytes) -> None:
        scheme, space, token = request.headers.get("Authorization", "").partition(" ")
        given = scheme.title() + space + token  # RFC 9110, 11.1: the scheme's case does not matter
        if not hmac.compare_digest(given.encode(errors="surrogateescape"), expected):
            raise UnauthorizedError(
                "the token is wrong" if given else "a token is needed: Authorization: Bearer <token>"
            )


def _cut(server: web.Server) -> None:
    for connection in server.connections:
        connection.force_close()


def route_groups(settings: Settings) -> tuple[RouteGroup, ...]:
    """All routes, in the order of the document."""
    return (
        SENDING,
        consuming(settings),
        LOOKUP,
        verification(settings),
        DELAYED,
        TRANSACTIONS,
        CLOCK,
        TOPICS,
        GROUPS,
        CLIENTS,
        FAULTS,
        LIVE,
        REPORTS,
        OPERATIONS,
    )
