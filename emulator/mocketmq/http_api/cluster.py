"""Routes for the brokers and name servers of the cluster: list them, and change the condition of one."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.name_servers import NameServerView
from mocketmq.broker.registry.brokers import BrokerState, CutOff, RegisteredBroker
from mocketmq.clock import US_PER_MS
from mocketmq.errors import BrokerNotFoundError, BrokerStateError, NameServerNotFoundError
from mocketmq.http_api.answer_fields import answer_from
from mocketmq.http_api.fields import Input, NoInput, matching
from mocketmq.http_api.route import ApiCall, Route, RouteGroup
from mocketmq.setting_rules import CRASH_LOSS, parse_crash_loss

SlaveState = Literal["running", "down"]
Loss = Annotated[
    str,
    matching(
        r"^(?:nothing|unreplicated|0|1h|60m|(?=[0-9])(?:[0-5]?[0-9]m)?(?:[0-5]?[0-9](?:\.[0-9]{1,6})?s)?"
        r"|[0-9]{1,3}(?:\.[0-9]{1,6})?s|[0-9]{1,6}(?:\.[0-9]{1,3})?ms|[0-9]{1,9}us)$",
        CRASH_LOSS.allowed,
    ),
]
_Number = Annotated[int, Meta(ge=1, le=8, description="Number of a name server, from 1 on")]


class BrokerOut(msgspec.Struct, frozen=True):
    """A broker of the cluster.

    `in_routes` says whether the name server lists it: while it runs, and after a crash or while it is cut off
    from the name servers until `in_routes_until_ms` by the broker's clock, which is null otherwise. `held`
    counts delayed messages that are due and wait for the broker to start again. `port` is that of the
    master, and null without remoting, as `slave_port` is. `slave_state` is null without a slave. `promoted`
    says that a promotion has made the slave the master, which changes the ports of both.
    """

    name: str
    state: BrokerState
    cut_off_from: list[CutOff]
    read_only: bool
    in_routes: bool
    in_routes_until_ms: int | None
    held: int
    port: int | None
    slave_port: int | None
    slave_state: SlaveState | None
    promoted: bool


class CrashOut(BrokerOut, frozen=True):
    """A broker that has crashed. `lost` counts the messages, retries and dead letters that it has lost."""

    lost: int


class PromotionOut(BrokerOut, frozen=True):
    """A broker whose slave was promoted. `lost` counts the messages that the slave did not have."""

    lost: int


class BrokerList(msgspec.Struct, frozen=True):
    """The brokers, in the order in which queues are shared out."""

    brokers: list[BrokerOut]


class BrokerPath(Input, frozen=True):
    """The name of a broker."""

    broker: Annotated[str, Meta(min_length=1, max_length=64, description="Name of a broker")]


class CrashIn(Input, frozen=True):
    """What the crash loses. With `unreplicated`, it is what the slave does not have yet.

    By default, the setting `crash_loses` says it.
    """

    loses: Loss | UnsetType = UNSET


BROKERS = RouteGroup("brokers", "Brokers of the cluster")


def _life_route(action: str, summary: str, *, is_body_optional: bool = False) -> Route:
    request, errors = f"POST /v1/brokers/{{broker}}/{action}", [BrokerNotFoundError, BrokerStateError]
    return Route(BROKERS, request, summary, is_body_optional=is_body_optional, errors=errors)


@Route(BROKERS, "GET /v1/brokers", "List the brokers")
async def brokers(call: ApiCall, _: NoInput) -> BrokerList:
    """With the setting `brokers` at its default, this is one broker, `broker-a`."""
    held = await call.broker.held.counts()
    return BrokerList([_broker_out(call, each, held) for each in call.broker.registry.brokers])


@_life_route("crash", "Crash a broker", is_body_optional=True)
async def crash_broker(call: ApiCall, path: BrokerPath, body: CrashIn) -> CrashOut:
    """Ends the broker's connections and closes its ports.

    Routes name it for another 120 s by the broker's clock, as the name server does not notice at once.
    """
    loses = None if body.loses is UNSET else parse_crash_loss(body.loses)
    crash = await call.broker.broker_lives.crash(path.broker, loses)
    out = await _answer(call, crash.broker)
    return CrashOut(**msgspec.structs.asdict(out), lost=crash.lost)


@_life_route("shutdown", "Shut a broker down")
async def shut_down_broker(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """Takes the broker out of all routes, ends its connections and closes its ports."""
    return await _answer(call, await call.broker.broker_lives.shut_down(path.broker))


@_life_route("promote", "Promote the slave of a broker")
async def promote_slave(call: ApiCall, path: BrokerPath) -> PromotionOut:
    """Makes the slave of the broker its master, at the slave's address, with the messages that it has.

    A broker that runs becomes the slave. One that is down or cut off ends; when it starts, it is the slave.
    """
    promotion = await call.broker.broker_lives.promote(path.broker)
    out = await _answer(call, promotion.broker)
    return PromotionOut(**msgspec.structs.asdict(out), lost=promotion.lost)


@_life_route("start", "Start a broker again")
async def start_broker(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """Opens the broker's ports again, and delivers what became due while it was down.

    A broker whose slave was promoted meanwhile starts as the slave.
    """
    return await _answer(call, await call.broker.broker_lives.start(path.broker))


@_life_route("wipe", "Wipe a broker that is down")
async def wipe_broker(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """Deletes all messages and offsets of a broker that is down, whose offsets begin at 0 again."""
    return await _answer(call, await call.broker.broker_lives.wipe(path.broker))


@_life_route("cut-off-from-clients", "Cut a broker off from its clients")
async def cut_off_from_clients(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """The broker keeps its connections, and answers nothing, as in a network that loses all packets."""
    return await _answer(call, await call.broker.broker_lives.cut_off(path.broker, "clients"))


@_life_route("cut-off-from-name-servers", "Cut a broker off from the name servers")
async def cut_off_from_name_servers(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """The broker serves its clients. Routes name it for another 120 s by the broker's clock."""
    return await _answer(call, await call.broker.broker_lives.cut_off(path.broker, "name-servers"))


@_life_route("reconnect", "Reconnect a broker that is cut off")
async def reconnect_broker(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """Serves what clients have sent meanwhile, and lists the broker in routes again."""
    return await _answer(call, await call.broker.broker_lives.reconnect(path.broker))


@_life_route("read-only", "Make a broker read-only")
async def make_read_only(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """Routes say so at once (`perm` 4), and the broker refuses sends."""
    return await _answer(call, await call.broker.broker_lives.set_read_only(path.broker, is_read_only=True))


@_life_route("writable", "Make a read-only broker writable again")
async def make_writable(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """The broker takes sends again, and routes say so."""
    return await _answer(call, await call.broker.broker_lives.set_read_only(path.broker, is_read_only=False))


async def _answer(call: ApiCall, registered: RegisteredBroker) -> BrokerOut:
    return _broker_out(call, registered, await call.broker.held.counts())


def _broker_out(call: ApiCall, registered: RegisteredBroker, held: Mapping[str, int]) -> BrokerOut:
    brokers, condition = call.broker.registry.brokers, registered.condition
    port, slave_port = registered.ports_by_role(is_promoted=condition.is_promoted)
    slave_state: SlaveState | None = None
    if registered.has_slave:
        slave_state = "running" if registered.has_running_slave else "down"
    is_routed, until_us = brokers.is_routed(registered), brokers.routed_until_us(registered)
    return BrokerOut(
        registered.name,
        condition.state,
        sorted(condition.cut_off_from),
        condition.is_read_only,
        is_routed,
        until_us // US_PER_MS if is_routed and until_us is not None else None,
        held.get(registered.downtime, 0),
        port or None,
        slave_port,
        slave_state,
        condition.is_promoted,
    )


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


NAME_SERVERS = RouteGroup("name-servers", "Name servers of the cluster")


def _change_route(action: str, summary: str) -> Route:
    errors = [NameServerNotFoundError, *([BrokerNotFoundError] if "{broker}" in action else [])]
    return Route(NAME_SERVERS, f"POST /v1/name-servers/{{name_server}}/{action}", summary, errors=errors)


@Route(NAME_SERVERS, "GET /v1/name-servers", "List the name servers")
async def name_servers(call: ApiCall, _: NoInput) -> NameServerList:
    """With the setting `name_servers` at its default, this is one name server."""
    return NameServerList([_name_server_out(each) for each in call.broker.name_servers])


@_change_route("stop", "Stop a name server")
async def stop_name_server(call: ApiCall, path: NameServerPath) -> NameServerOut:
    """Closes its port and ends its connections."""
    return _name_server_out(await call.broker.name_servers.set_stopped(path.name_server, is_stopped=True))


@_change_route("start", "Start a name server again")
async def start_name_server(call: ApiCall, path: NameServerPath) -> NameServerOut:
    """Opens its port again."""
    return _name_server_out(await call.broker.name_servers.set_stopped(path.name_server, is_stopped=False))


@_change_route("freeze", "Make a name server stale")
async def freeze_name_server(call: ApiCall, path: NameServerPath) -> NameServerOut:
    """Its list of brokers no longer changes."""
    found = call.broker.name_servers.numbered(path.name_server)
    found.freeze()
    return _name_server_out(found)


@_change_route("hide/{broker}", "Make a name server leave out a broker")
async def hide_broker(call: ApiCall, path: ListingPath) -> NameServerOut:
    """It leaves out the broker, which its routes no longer name."""
    return _listing(call, path, is_listed=False)


@_change_route("keep/{broker}", "Make a name server keep a broker")
async def keep_broker(call: ApiCall, path: ListingPath) -> NameServerOut:
    """It lists the broker, even while the broker is down."""
    return _listing(call, path, is_listed=True)


@_change_route("correct", "Make a name server tell the truth again")
async def correct_name_server(call: ApiCall, path: NameServerPath) -> NameServerOut:
    """It tells the truth again: ends `freeze`, `hide` and `keep`."""
    found = call.broker.name_servers.numbered(path.name_server)
    found.correct()
    return _name_server_out(found)


def _listing(call: ApiCall, path: ListingPath, *, is_listed: bool) -> NameServerOut:
    found = call.broker.name_servers.numbered(path.name_server)
    found.set_listed(path.broker, is_listed=is_listed)
    return _name_server_out(found)


def _name_server_out(view: NameServerView) -> NameServerOut:
    return answer_from(
        NameServerOut,
        view,
        state="stopped" if view.is_stopped else "running",
        brokers=[each.name for each in view.routed()],
        port=view.port or None,
    )
