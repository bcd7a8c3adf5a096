"""Routes for health, information, reset, metrics, and the API's own documents."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType

from mocketmq import __version__
from mocketmq.access.needs import Action
from mocketmq.broker.sending.sender import MAX_BATCH
from mocketmq.clock import US_PER_MS
from mocketmq.compiled import is_compiled
from mocketmq.errors import ClockError, InvalidArgumentError, StoppingError, TopicNotFoundError
from mocketmq.http_api import web
from mocketmq.http_api.access import any_user, on_topic
from mocketmq.http_api.answers import load_of
from mocketmq.http_api.fields import Input, InstantMs, NoInput, TopicName
from mocketmq.http_api.json_response import JSON
from mocketmq.http_api.route import ApiCall, Route, RouteGroup, given
from mocketmq.open_ports import OpenPorts

TEXT, HTML = "text/plain", "text/html"
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Info(msgspec.Struct, frozen=True):
    """The broker's settings and limits, and its open `doors`. `run` counts its starts on this store.

    `compiled` says whether the installation has modules compiled by mypyc, or runs as Python.
    """

    version: str
    compiled: bool
    profile: str
    clock: str
    levels: str
    data: str
    durability: str
    run: int
    uptime_ms: int
    max_message_bytes: int
    max_batch: int
    max_long_poll_ms: int
    max_wait_ms: int
    doors: OpenPorts


class ResetIn(Input, frozen=True):
    """The topic to empty, by default all; the new `clock` time; and whether to `forget` topics and groups.

    `clock` is `start` or an instant. `start` sets a manual clock back to its time at this run's start, and
    any other clock to the wall clock. An instant, or the wall clock's time, may be earlier than now, but not
    earlier than this run's start; otherwise the status is 409. By default, the clock does not change.
    `forget` deletes topics and groups that are neither declared in the settings nor used by connected
    clients, and restores the declared configuration of the declared ones.
    """

    more_schema: ClassVar[Mapping[str, object]] = {
        "if": {"required": ["topic"]},
        "then": {"not": {"required": ["clock"]}, "properties": {"forget": {"const": False}}},
    }

    topic: TopicName | UnsetType = UNSET
    clock: Literal["start"] | InstantMs | UnsetType = UNSET
    forget: bool = False


class ResetOut(msgspec.Struct, frozen=True):
    """The emptied topic, or `all`, and the broker's time."""

    reset: str
    now_ms: int


class Health(msgspec.Struct, frozen=True):
    """The process is running."""

    status: Literal["ok"] = "ok"


class Readiness(msgspec.Struct, frozen=True):
    """All ports are open, and recovery has finished."""

    status: Literal["ready"] = "ready"


OPERATIONS = RouteGroup("operations", "Health, information, reset, metrics")


@Route(OPERATIONS, "GET /v1/info", "Show version, settings, limits and ports", needs=any_user)
async def info(call: ApiCall, _: NoInput) -> Info:
    """Returns the version, settings, limits, uptime and open ports.

    In `doors`, `http` is this API and `namesrv` the name server. Closed ports are omitted.
    """
    settings = call.api.settings
    return Info(
        __version__,
        is_compiled(),
        call.broker.levels.profile.name,
        call.broker.clock.mode,
        call.broker.levels.table.text,
        settings.data,
        settings.durability,
        call.broker.store.run,
        call.api.uptime_us // US_PER_MS,
        call.broker.sender.intake.max_message_bytes,
        MAX_BATCH,
        settings.max_long_poll_us // US_PER_MS,
        settings.max_wait_us // US_PER_MS,
        call.api.doors(),
    )


@Route(
    OPERATIONS,
    "POST /v1/reset",
    "Empty all topics, or one",
    is_body_optional=True,
    errors=[TopicNotFoundError, ClockError],
    needs=on_topic(Action.UPDATE),
)
async def reset(call: ApiCall, _: NoInput, what: ResetIn) -> ResetOut:
    """Removes messages, including pending ones. Connections, topics, groups and settings stay.

    New messages get the next offsets, not 0. Emptying all topics also empties the ledger, ends all long
    polls, removes all fault rules, and makes all brokers and name servers run normally again. Emptying one
    topic keeps its rows in the ledger, and the fault rules.
    """
    broker = call.broker
    if what.topic is UNSET:
        begin_us = broker.clock.start_us if what.clock == "start" else None
        if isinstance(what.clock, int):
            begin_us = what.clock * US_PER_MS
        await broker.full_reset.run(begin_us, forget=what.forget)
    elif what.clock is not UNSET:
        raise InvalidArgumentError("clock", what.clock, "only without a topic")
    elif what.forget:
        raise InvalidArgumentError("forget", True, "only without a topic")
    else:
        await broker.reset.topic(what.topic)
    return ResetOut(given(what.topic) or "all", broker.clock.now_us() // US_PER_MS)


@Route(OPERATIONS, "GET /healthz", "Check that the process answers", is_open=True)
async def health(_: ApiCall, __: NoInput) -> Health:
    """Needs no credentials."""
    return Health()


@Route(OPERATIONS, "GET /readyz", "Check that the broker is ready", is_open=True)
async def readiness(call: ApiCall, _: NoInput) -> Readiness:
    """Needs no credentials. Status 503: the broker is starting or stopping; 500: its store is damaged."""
    if not call.api.is_ready:
        raise StoppingError("the broker is not ready: it is starting or stopping")
    call.broker.store.database.check_damage()
    return Readiness()


@Route(OPERATIONS, "GET /metrics", "Read the metrics", media_type=TEXT)
async def metrics(call: ApiCall, _: NoInput) -> web.StreamResponse:
    """Returns the metrics in Prometheus' text format."""
    # The import takes half as long as importing the whole API, and many brokers are never scraped.
    from mocketmq.http_api.metrics import render  # noqa: PLC0415

    return await load_of(call.request).send_in_pieces(await render(call.api), _PROMETHEUS)


@Route(OPERATIONS, "GET /openapi.json", "Read this document", media_type=JSON, needs=any_user)
async def openapi(call: ApiCall, _: NoInput) -> web.Response:
    """Returns the OpenAPI 3.1 document of this API."""
    from mocketmq.http_api.openapi import document  # noqa: PLC0415

    return web.json_response(
        body=msgspec.json.encode(document(call.api)) + b"\n", headers={"X-Content-Type-Options": "nosniff"}
    )


@Route(OPERATIONS, "GET /docs", "Read this document as a page", media_type=HTML, needs=any_user)
async def docs(_: ApiCall, __: NoInput) -> web.Response:
    """Returns a self-contained HTML page on this API."""
    from importlib.resources import files  # noqa: PLC0415

    return web.Response(
        body=files(__package__).joinpath("docs.html").read_bytes(),
        content_type=HTML,
        charset="utf-8",
        headers=_PAGE_HEADERS,
    )


_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
    " img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of a page with an inline script."""
