"""The HTTP server, which listens on its ports, checks credentials, and dispatches and counts JSON requests.

The server uses aiohttp's low-level API, because aiohttp's Application would take a third of a request's time.
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

from mocketmq.access.access import Access
from mocketmq.broker.broker import Broker
from mocketmq.clock import US_PER_MS, steady_us
from mocketmq.door_tap import DoorTap
from mocketmq.errors import ListenError
from mocketmq.hosts import with_port
from mocketmq.http_api import web
from mocketmq.http_api.access import ApiGuard
from mocketmq.http_api.answers import Answers, CountedRequest, large_size, load_of
from mocketmq.http_api.bodies import Bodies
from mocketmq.http_api.clients import CLIENTS
from mocketmq.http_api.clock import CLOCK
from mocketmq.http_api.cluster import BROKERS, NAME_SERVERS
from mocketmq.http_api.connection import KEPT_ALIVE_S, TICK_S, HttpConnection
from mocketmq.http_api.consuming import CONSUMING
from mocketmq.http_api.delayed import DELAYED
from mocketmq.http_api.expectations import VERIFICATION
from mocketmq.http_api.fast_sends import FastSends
from mocketmq.http_api.faults import FAULTS
from mocketmq.http_api.groups import GROUPS
from mocketmq.http_api.listener import UNMATCHED, HttpTap, Listener, OtherDoors, RoutedResponse
from mocketmq.http_api.live import LIVE
from mocketmq.http_api.lookup import LOOKUP
from mocketmq.http_api.operations import OPERATIONS
from mocketmq.http_api.packs import PACKS
from mocketmq.http_api.page_guard import PageGuard
from mocketmq.http_api.problem import HttpError, problem_response
from mocketmq.http_api.reporting import REPORTS
from mocketmq.http_api.route import Api, Endpoint, RouteGroup
from mocketmq.http_api.router import Router
from mocketmq.http_api.seeds import SEEDS
from mocketmq.http_api.sending import SENDING
from mocketmq.http_api.snapshots import SNAPSHOTS
from mocketmq.http_api.topics import TOPICS
from mocketmq.http_api.transactions import TRANSACTIONS
from mocketmq.open_ports import OpenPort, OpenPorts
from mocketmq.port_listener import PortListener
from mocketmq.settings import Settings

log = logging.getLogger(__name__)

GRACE_S = 2.0
"""Real seconds that running requests get to finish when the server stops, before they are cancelled."""

_PAGES: Final = ("", "console", "docs", "v1", "openapi.json", "metrics", "healthz", "readyz")
"""First segments of paths that people open in a browser."""

MAX_LINE_BYTES = 1 << 16
"""Maximum length of a request line. The longest filter fits, even if all characters are percent-encoded."""


class HttpServer:
    """Serves the JSON API and other protocols. The app starts and closes it, and sets ``api.is_ready``."""

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        guard: PageGuard,
        bodies: Bodies,
        others: OtherDoors,
        access: Access | None,
        tap: DoorTap | None = None,
    ) -> None:
        self._settings = settings
        self._tap = tap
        self._http_tap = None if tap is None else HttpTap(tap)
        if self._http_tap is not None:
            bodies.on_read = self._http_tap.read
        self._doors = dict(others.doors)
        self._broker_doors, self._name_server_doors = dict(others.brokers), list(others.name_servers)
        self.api = Api(broker, settings, bodies, route_groups(settings), others.metrics, lambda: self.doors)
        self._guard = ApiGuard(settings.token, access if settings.acl else None)
        self._router: Router[Endpoint] = Router()
        for group in self.api.route_groups:
            for route in group.routes:
                self._router.add_route(route.method, route.path, Endpoint(self.api, route))
        broker.faults.declare("http", self._operations)
        self._listeners = (
            Listener("http", settings.http_port, guard, others.by_segment, self._answer, _PAGES),
            *others.listeners,
        )
        self._servers: list[web.Server] = []
        self._port_listeners: list[PortListener] = []
        # Requests that are recorded, or whose sender needs permissions, take the general path.
        has_fast_path = tap is None and not self._guard.is_on
        self.fast_sends = FastSends(self.api, self._router, log) if has_fast_path else None
        self._answers = Answers()
        self._connections: dict[Any, HttpConnection] = {}  # by aiohttp's protocol object
        self._ticking: asyncio.TimerHandle | None = None

    def _operations(self) -> Iterator[str]:
        for group in self.api.route_groups:
            for route in group.routes:
                if route.operation is not None:
                    yield from (route.operation, route.handler.__name__)

    @property
    def doors(self) -> OpenPorts:
        """All open ports of the broker. Available after the start of this server."""
        return OpenPorts(**self._doors, brokers=self._broker_doors, name_servers=self._name_server_doors)

    async def start(self) -> None:
        """Open all ports, or raise ListenError and open none."""
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

        def make_request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> CountedRequest:
            request = CountedRequest(message, payload, protocol, writer, task, loop)
            request.answers = self._answers
            return request

        server = web.Server(
            partial(self._serve, listener),
            request_factory=make_request,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=KEPT_ALIVE_S,
            auto_decompress=False,  # the listener refuses compressed bodies
            max_line_size=MAX_LINE_BYTES,
        )
        self._servers.append(server)
        fast_sends = self.fast_sends if listener.door == "http" else None
        port_listener = PortListener(
            lambda: HttpConnection(server(), self._connections, fast_sends, self._tap), partial(_cut, server)
        )
        self._port_listeners.append(port_listener)
        try:
            opened = await port_listener.listen_at(host, port)
        except OSError as error:
            raise ListenError(
                f"cannot listen on {host}:{port} for HTTP: {error.strerror or error};"
                " choose another port or address"
            ) from error
        self._doors[listener.door] = OpenPort(opened, f"http://{with_port(host, opened)}")
        if listener.door != "http":  # the API's port stays open, so that a request can remove the rule
            broker = self.api.broker
            await broker.outage.add_listener(
                "broker-away", listener.door, port_listener, broker.registry.brokers.only_name
            )

    def _tick(self) -> None:
        """Close connections with late clients, and return freed memory to the system after a flood."""
        self._ticking = asyncio.get_running_loop().call_later(TICK_S, self._tick)
        self._answers.look_after()
        now_us = steady_us()
        for connection in [one for one in self._connections.values() if one.is_late(now_us)]:
            connection.abort()
        self.api.bodies.look_after()

    async def close(self) -> None:
        """Close the ports, and cancel requests that still run after GRACE_S. May be called twice."""
        self.api.is_ready = False
        if self._ticking is not None:
            self._ticking.cancel()
        for port_listener in self._port_listeners:
            port_listener.close()
        servers, self._servers = self._servers, []
        await self.api.reports.close()
        await asyncio.sleep(0)  # requests that have just been read begin
        if self.fast_sends is not None:
            await self.fast_sends.finish(GRACE_S)
        for connection in [each for server in servers for each in server.connections]:
            connection.close()
        await asyncio.gather(*(server.shutdown(GRACE_S) for server in servers))

    async def _serve(self, listener: Listener, request: CountedRequest) -> web.StreamResponse:
        began_us = steady_us() if log.isEnabledFor(logging.DEBUG) else None
        connection = self._connections.get(request.protocol)
        if connection is not None:
            connection.is_answering = True
        try:
            if self._http_tap is None or connection is None:
                template, response = await listener.answer(request)
            else:
                template, response = await self._http_tap.answer(listener, request, connection.tap_number)
            if size := large_size(response):
                await load_of(request).send(response, size)
        except ConnectionError:  # the client has disconnected
            raise
        except Exception:
            log.exception("%s %s: a defect in mocketmq", request.method, request.rel_url.raw_path)
            raise
        finally:
            request.end_load()
            if connection is not None:
                connection.answered()
        self.api.requests[request.method, template, response.status] += 1
        if self.fast_sends is not None and connection is not None:
            self.fast_sends.learn(request, template, response.status, connection.take_head(request))
        if began_us is not None:
            what, took_us = f"{request.method} {request.rel_url.raw_path}", steady_us() - began_us
            log.debug("%s %s: %d in %.1f ms", request.remote, what, response.status, took_us / US_PER_MS)
        return response

    async def _answer(self, request: web.BaseRequest) -> RoutedResponse:
        template = UNMATCHED
        try:
            path = request.rel_url.raw_path
            account = None
            if self._guard.is_on and not self._is_open(request.method, path):
                account = self._guard.account_of(request)
            endpoint, parameters = self._router.find_endpoint(request.method, path)
            template = endpoint.route.path
            return RoutedResponse(template, await endpoint.serve(request, parameters, account))
        except Exception as error:  # noqa: BLE001 - every error becomes a problem document
            return RoutedResponse(template, problem_response(error))

    def _is_open(self, method: str, path: str) -> bool:
        try:
            return self._router.find_endpoint(method, path).endpoint.route.is_open
        except HttpError:
            return False  # clients without credentials must not learn which paths exist


def _cut(server: web.Server) -> None:
    for connection in server.connections:
        connection.force_close()


def route_groups(settings: Settings) -> tuple[RouteGroup, ...]:
    """All routes, in the order of the OpenAPI document, with their waits limited by the settings."""
    groups = (
        SENDING,
        SEEDS,
        SNAPSHOTS,
        PACKS,
        CONSUMING,
        LOOKUP,
        VERIFICATION,
        DELAYED,
        TRANSACTIONS,
        CLOCK,
        TOPICS,
        GROUPS,
        CLIENTS,
        BROKERS,
        NAME_SERVERS,
        FAULTS,
        LIVE,
        REPORTS,
        OPERATIONS,
    )
    return tuple(
        replace(group, routes=[route.within(settings) for route in group.routes]) for group in groups
    )
