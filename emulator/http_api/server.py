"""The listener of the JSON API, and what happens to every request: token, errors, counting.

It stands on aiohttp's low-level server, since a third of what a request costs in aiohttp is its application.
"""

import asyncio
import hmac
from typing import Any

from aiohttp import web

from emulator.broker.broker import Broker
from emulator.errors import ListenError, UnauthorizedError
from emulator.http_api.clock import CLOCK
from emulator.http_api.consuming import consuming
from emulator.http_api.delayed import DELAYED
from emulator.http_api.groups import GROUPS
from emulator.http_api.lookup import LOOKUP
from emulator.http_api.operations import OPERATIONS
from emulator.http_api.problem import problem_response
from emulator.http_api.route import Api, Endpoint, Family
from emulator.http_api.router import Router
from emulator.http_api.sending import SENDING
from emulator.http_api.topics import topic_routes
from emulator.settings import Settings

GRACE_S = 2.0
"""Real seconds that running requests have when the server stops; then they are cancelled."""

MAX_LINE_BYTES = 1 << 16
"""Of a request: a filter of the allowed length fits, every character percent-encoded."""

UNMATCHED = "unmatched"
"""The path template of requests that fit no route."""


class HttpServer:
    """JSON over HTTP. Started and closed by the app, which also says when the broker is ready."""

    def __init__(self, broker: Broker, settings: Settings, run: int) -> None:
        self._settings = settings
        self._api = Api(broker, settings, run, families(settings))
        self._expected = f"Bearer {settings.token}".encode() if settings.token else None
        self._open_paths: set[str] = set()
        self._router: Router[Endpoint] = Router()
        for family in self._api.families:
            for route in family.routes:
                self._router.add(route.method, route.path, Endpoint(self._api, route))
                if route.is_open:
                    self._open_paths.add(route.path)
        self._runner: web.ServerRunner | None = None
        self._port = 0

    @property
    def is_ready(self) -> bool:
        """Whether every listener is up and recovery is over; ``/readyz`` says so."""
        return self._api.is_ready

    @is_ready.setter
    def is_ready(self, ready: bool) -> None:
        self._api.is_ready = ready

    @property
    def url(self) -> str:
        """Where it listens, with the port that was picked."""
        host = self._settings.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self._port}"

    async def start(self) -> None:
        """Open the port. Raises ListenError when that is not possible."""
        host, port = self._settings.host, self._settings.http_port
        loop, limit = asyncio.get_running_loop(), self._api.max_body_bytes

        def request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
            return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=limit)

        server = web.Server(
            self._answer,
            request_factory=request,
            handler_cancellation=True,
            access_log=None,
            max_line_size=MAX_LINE_BYTES,
        )
        runner = web.ServerRunner(server, shutdown_timeout=GRACE_S)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            await runner.cleanup()
            raise ListenError(
                f"cannot listen on {host}:{port} for HTTP: {error.strerror or error};"
                " choose another port or address"
            ) from error
        self._runner = runner
        self._port = runner.addresses[0][1]

    async def close(self) -> None:
        """Accept nothing more, give running requests a moment, then cancel them. May be called twice."""
        self.is_ready = False
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        template = UNMATCHED
        try:
            path = request.rel_url.raw_path
            if self._expected is not None and path not in self._open_paths:
                self._authorize(request, self._expected)
            endpoint, parameters = self._router.find(request.method, path)
            template = endpoint.route.path
            response = await endpoint.serve(request, parameters)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told as a problem
            response = problem_response(error)
        self._api.requests[request.method, template, response.status] += 1
        return response

    def _authorize(self, request: web.BaseRequest, expected: bytes) -> None:
        given = request.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(errors="surrogateescape"), expected):
            raise UnauthorizedError(
                "the token is wrong" if given else "a token is needed: Authorization: Bearer <token>"
            )


def families(settings: Settings) -> tuple[Family, ...]:
    """All routes, in the order of the document."""
    return (
        SENDING,
        consuming(settings),
        LOOKUP,
        DELAYED,
        CLOCK,
        topic_routes(settings),
        GROUPS,
        OPERATIONS,
    )
