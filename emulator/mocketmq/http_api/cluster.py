"""Routes for the brokers and name servers of the cluster: list them, and change their conditions."""

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
_Number = Annotated[int, Meta(ge=1, le=8, description="Number of a name server, counted from 1")]


class BrokerOut(msgspec.Struct, frozen=True):
    """A broker of the cluster.

    `in_routes` says whether the name server lists the broker. After a crash, or while the broker is cut off
    from the name servers, the name server lists it until `in_routes_until_ms` on the broker's clock;
    otherwise that field is null. `held` is the number of delayed messages that are due and wait for the
    broker to start again. `port` is the port of the master, and null without remoting. `slave_port` is null
    without remoting or a slave, and `slave_state` without a slave. `promoted` says whether the slave has
    become the master: a promotion exchanges the two ports.
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
    """A crashed broker. `lost` is the number of messages, retries and dead letters that the crash lost."""

    lost: int


class PromotionOut(BrokerOut, frozen=True):
    """A broker whose slave was promoted. `lost` is the number of messages that the slave did not have."""

    lost: int


class BrokerList(msgspec.Struct, frozen=True):
    """The brokers, in the order in which the queues of a topic are distributed among them."""

    brokers: list[BrokerOut]


class BrokerPath(Input, frozen=True):
    """The name of a broker."""

    broker: Annotated[str, Meta(min_length=1, max_length=64, description="Name of a broker")]


class CrashIn(Input, frozen=True):
    """The messages that the crash loses, by default those in the setting `crash_loses`.

    A duration means the messages stored within that time before the crash, by the broker's clock, and
    `unreplicated` those that the slave does not have yet.
    """

    loses: Loss | UnsetType = UNSET


BROKERS = RouteGroup("brokers", "Brokers of the cluster")


def _life_route(action: str, summary: str, *, is_body_optional: bool = False) -> Route:
    request, errors = f"POST /v1/brokers/{{broker}}/{action}", [BrokerNotFoundError, BrokerStateError]
    return Route(BROKERS, request, summary, is_body_optional=is_body_optional, errors=errors)


@Route(BROKERS, "GET /v1/brokers", "List the brokers")
async def brokers(call: ApiCall, _: NoInput) -> BrokerList:
    """By default, the cluster has one broker, `broker-a`. The setting `brokers` adds more."""
    held = await call.broker.held.counts()
    return BrokerList([_broker_out(call, each, held) for each in call.broker.registry.brokers])


@_life_route("crash", "Crash a broker", is_body_optional=True)
async def crash_broker(call: ApiCall, path: BrokerPath, body: CrashIn) -> CrashOut:
    """Closes the broker's connections and ports.

    Routes list the broker for another 120 s on its clock, as after the loss of its machine. With the setting
    `failover` at `acting-master`, they list it for `failover_after`.
    """
    loses = None if body.loses is UNSET else parse_crash_loss(body.loses)
    crash = await call.broker.broker_lives.crash(path.broker, loses)
    out = await _answer(call, crash.broker)
    return CrashOut(**msgspec.structs.asdict(out), lost=crash.lost)


@_life_route("shutdown", "Shut a broker down")
async def shut_down_broker(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """Removes the broker from all routes, and closes its connections and ports."""
    return await _answer(call, await call.broker.broker_lives.shut_down(path.broker))


@_life_route("promote", "Promote the slave of a broker")
async def promote_slave(call: ApiCall, path: BrokerPath) -> PromotionOut:
    """Makes the broker's slave its master, at the slave's address and with the messages that the slave has.

    A running broker becomes the slave at once. A broker that is down or cut off becomes the slave when it is
    started again.
    """
    promotion = await call.broker.broker_lives.promote(path.broker)
    out = await _answer(call, promotion.broker)
    return PromotionOut(**msgspec.structs.asdict(out), lost=promotion.lost)


@_life_route("start", "Start a broker again")
async def start_broker(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """Opens the broker's ports again, and delivers the messages that became due while it was down.

    If the broker's slave was promoted in the meantime, the broker starts as the slave.
    """
    return await _answer(call, await call.broker.broker_lives.start(path.broker))


@_life_route("wipe", "Wipe a broker that is down")
async def wipe_broker(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """Deletes all messages and offsets of a broker that is down. Its queues then begin at offset 0 again."""
    return await _answer(call, await call.broker.broker_lives.wipe(path.broker))


@_life_route("cut-off-from-clients", "Cut a broker off from its clients")
async def cut_off_from_clients(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """The broker keeps its connections but does not respond, as in a network that loses all packets."""
    return await _answer(call, await call.broker.broker_lives.cut_off(path.broker, "clients"))


@_life_route("cut-off-from-name-servers", "Cut a broker off from the name servers")
async def cut_off_from_name_servers(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """The broker still serves its clients. Routes list it for as long as they list a crashed broker."""
    return await _answer(call, await call.broker.broker_lives.cut_off(path.broker, "name-servers"))


@_life_route("reconnect", "Reconnect a broker that is cut off")
async def reconnect_broker(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """The broker serves the requests that it got in the meantime, and routes list it again."""
    return await _answer(call, await call.broker.broker_lives.reconnect(path.broker))


@_life_route("read-only", "Make a broker read-only")
async def make_read_only(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """The broker refuses sends. Routes show this at once (`perm` 4)."""
    return await _answer(call, await call.broker.broker_lives.set_read_only(path.broker, is_read_only=True))


@_life_route("writable", "Make a read-only broker writable again")
async def make_writable(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """The broker accepts sends again, and routes show this at once."""
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

    `brokers` are the brokers that the name server lists now. Whatever their condition, it omits the brokers
    in `hidden` and lists the brokers in `kept`. `port` is null without remoting.
    """

    number: int
    state: Literal["running", "stopped"]
    brokers: list[str]
    hidden: list[str]
    kept: list[str]
    port: int | None


class NameServerList(msgspec.Struct, frozen=True):
    """The name servers, in the order of their numbers."""

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
    """By default, the cluster has one name server. The setting `name_servers` adds more."""
    return NameServerList([_name_server_out(each) for each in call.broker.name_servers])


@_change_route("stop", "Stop a name server")
async def stop_name_server(call: ApiCall, path: NameServerPath) -> NameServerOut:
    """Closes the name server's port and its connections."""
    return _name_server_out(await call.broker.name_servers.set_stopped(path.name_server, is_stopped=True))


@_change_route("start", "Start a name server again")
async def start_name_server(call: ApiCall, path: NameServerPath) -> NameServerOut:
    """Opens the name server's port again."""
    return _name_server_out(await call.broker.name_servers.set_stopped(path.name_server, is_stopped=False))


@_change_route("freeze", "Freeze a name server")
async def freeze_name_server(call: ApiCall, path: NameServerPath) -> NameServerOut:
    """From now on, the name server ignores all changes to brokers."""
    found = call.broker.name_servers.numbered(path.name_server)
    found.freeze()
    return _name_server_out(found)


@_change_route("hide/{broker}", "Make a name server omit a broker")
async def hide_broker(call: ApiCall, path: ListingPath) -> NameServerOut:
    """The name server no longer lists the broker, so its routes do not include the broker."""
    return _listing(call, path, is_listed=False)


@_change_route("keep/{broker}", "Make a name server keep listing a broker")
async def keep_broker(call: ApiCall, path: ListingPath) -> NameServerOut:
    """The name server lists the broker even while the broker is down."""
    return _listing(call, path, is_listed=True)


@_change_route("correct", "Make a name server list all brokers correctly again")
async def correct_name_server(call: ApiCall, path: NameServerPath) -> NameServerOut:
    """Undoes `freeze`, `hide` and `keep`."""
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
