"""Routes for the name servers of the cluster: list them, stop one, make it wrong about brokers."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mocketmq.broker.name_servers import NameServerView
from mocketmq.errors import BrokerNotFoundError, NameServerNotFoundError
from mocketmq.http_api.fields import Input, NoInput
from mocketmq.http_api.route import ApiCall, Handler, Route, RouteGroup

_Number = Annotated[int, Meta(ge=1, le=8, description="Number of a name server, from 1 on")]


class NameServerOut(msgspec.Struct, frozen=True):
    """A name server of the cluster.

    `brokers` are those that it lists now. Whatever their condition, it leaves out those in `hidden` and lists
    those in `kept`. `port` is null without remoting.
    """

    number: int
    state: Literal["running", "stopped"]
    brokers: list[str]
    hidden: list[str]
    kept: list[str]
    port: int | None


class NameServerList(msgspec.Struct, frozen=True):
    """The name servers, by their numbers."""

    name_servers: list[NameServerOut]


class NameServerPath(Input, frozen=True):
    """The number of a name server."""

    name_server: _Number


class ListingPath(Input, frozen=True):
    """The number of a name server, and the name of a broker."""

    name_server: _Number
    broker: Annotated[str, Meta(min_length=1, max_length=64, description="Name of a broker")]


async def name_servers(call: ApiCall, _: NoInput) -> NameServerList:
    """With the setting `name_servers` at its default, this is one name server."""
    return NameServerList([_out(each) for each in call.broker.name_servers])


async def stop_name_server(call: ApiCall, path: NameServerPath) -> NameServerOut:
    """Closes its port and ends its connections."""
    return _out(await call.broker.name_servers.set_stopped(path.name_server, is_stopped=True))


async def start_name_server(call: ApiCall, path: NameServerPath) -> NameServerOut:
    """Opens its port again."""
    return _out(await call.broker.name_servers.set_stopped(path.name_server, is_stopped=False))


async def freeze_name_server(call: ApiCall, path: NameServerPath) -> NameServerOut:
    """Its list of brokers no longer changes."""
    found = call.broker.name_servers.numbered(path.name_server)
    found.freeze()
    return _out(found)


async def hide_broker(call: ApiCall, path: ListingPath) -> NameServerOut:
    """It leaves out the broker, which its routes no longer name."""
    return _listing(call, path, is_listed=False)


async def keep_broker(call: ApiCall, path: ListingPath) -> NameServerOut:
    """It lists the broker, even while the broker is down."""
    return _listing(call, path, is_listed=True)


async def correct_name_server(call: ApiCall, path: NameServerPath) -> NameServerOut:
    """It tells the truth again: ends `freeze`, `hide` and `keep`."""
    found = call.broker.name_servers.numbered(path.name_server)
    found.correct()
    return _out(found)


def _listing(call: ApiCall, path: ListingPath, *, is_listed: bool) -> NameServerOut:
    found = call.broker.name_servers.numbered(path.name_server)
    found.set_listed(path.broker, is_listed=is_listed)
    return _out(found)


def _out(view: NameServerView) -> NameServerOut:
    return NameServerOut(
        view.number,
        "stopped" if view.is_stopped else "running",
        [each.name for each in view.routed()],
        view.hidden,
        view.kept,
        view.port or None,
    )


def _change(action: str, summary: str, handler: Handler) -> Route:
    errors = [NameServerNotFoundError, *([BrokerNotFoundError] if "{broker}" in action else [])]
    return Route("POST", f"/v1/name-servers/{{name_server}}/{action}", handler, summary, errors=errors)


NAME_SERVERS = RouteGroup(
    "name-servers",
    "Name servers of the cluster",
    [
        Route("GET", "/v1/name-servers", name_servers, "List the name servers"),
        _change("stop", "Stop a name server", stop_name_server),
        _change("start", "Start a name server again", start_name_server),
        _change("freeze", "Make a name server stale", freeze_name_server),
        _change("hide/{broker}", "Make a name server leave out a broker", hide_broker),
        _change("keep/{broker}", "Make a name server keep a broker", keep_broker),
        _change("correct", "Make a name server tell the truth again", correct_name_server),
    ],
)
