"""Routes for the brokers of the cluster: list them, and change the condition of one."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mocketmq.broker.registry.brokers import BrokerState, CutOff, RegisteredBroker
from mocketmq.clock import US_PER_MS
from mocketmq.errors import BrokerNotFoundError, BrokerStateError
from mocketmq.http_api.fields import Input, NoInput, matching
from mocketmq.http_api.route import ApiCall, Handler, Route, RouteGroup
from mocketmq.setting_rules import CRASH_LOSS, parse_crash_loss

SlaveState = Literal["running", "down"]


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


Loss = Annotated[
    str,
    matching(
        r"^(?:nothing|unreplicated|0|1h|60m|(?=[0-9])(?:[0-5]?[0-9]m)?(?:[0-5]?[0-9](?:\.[0-9]{1,6})?s)?"
        r"|[0-9]{1,3}(?:\.[0-9]{1,6})?s|[0-9]{1,6}(?:\.[0-9]{1,3})?ms|[0-9]{1,9}us)$",
        CRASH_LOSS.allowed,
    ),
]


class CrashIn(Input, frozen=True):
    """What the crash loses. With `unreplicated`, it is what the slave does not have yet.

    By default, the setting `crash_loses` says it.
    """

    loses: Loss | UnsetType = UNSET


async def brokers(call: ApiCall, _: NoInput) -> BrokerList:
    """With the setting `brokers` at its default, this is one broker, `broker-a`."""
    held = await call.broker.held.counts()
    return BrokerList([_out(call, each, held) for each in call.broker.registry.brokers])


async def crash_broker(call: ApiCall, path: BrokerPath, body: CrashIn) -> CrashOut:
    """Ends the broker's connections and closes its ports.

    Routes name it for another 120 s by the broker's clock, as the name server does not notice at once.
    """
    loses = None if body.loses is UNSET else parse_crash_loss(body.loses)
    crash = await call.broker.broker_lives.crash(path.broker, loses)
    out = await _answer(call, crash.broker)
    return CrashOut(**msgspec.structs.asdict(out), lost=crash.lost)


async def shut_down_broker(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """Takes the broker out of all routes, ends its connections and closes its ports."""
    return await _answer(call, await call.broker.broker_lives.shut_down(path.broker))


async def promote_slave(call: ApiCall, path: BrokerPath) -> PromotionOut:
    """Makes the slave of the broker its master, at the slave's address, with the messages that it has.

    A broker that runs becomes the slave. One that is down or cut off ends; when it starts, it is the slave.
    """
    promotion = await call.broker.broker_lives.promote(path.broker)
    out = await _answer(call, promotion.broker)
    return PromotionOut(**msgspec.structs.asdict(out), lost=promotion.lost)


async def start_broker(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """Opens the broker's ports again, and delivers what became due while it was down.

    A broker whose slave was promoted meanwhile starts as the slave.
    """
    return await _answer(call, await call.broker.broker_lives.start(path.broker))


async def wipe_broker(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """Deletes all messages and offsets of a broker that is down, whose offsets begin at 0 again."""
    return await _answer(call, await call.broker.broker_lives.wipe(path.broker))


async def cut_off_from_clients(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """The broker keeps its connections, and answers nothing, as in a network that loses all packets."""
    return await _answer(call, await call.broker.broker_lives.cut_off(path.broker, "clients"))


async def cut_off_from_name_servers(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """The broker serves its clients. Routes name it for another 120 s by the broker's clock."""
    return await _answer(call, await call.broker.broker_lives.cut_off(path.broker, "name-servers"))


async def reconnect_broker(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """Serves what clients have sent meanwhile, and lists the broker in routes again."""
    return await _answer(call, await call.broker.broker_lives.reconnect(path.broker))


async def make_read_only(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """Routes say so at once (`perm` 4), and the broker refuses sends."""
    return await _answer(call, await call.broker.broker_lives.set_read_only(path.broker, is_read_only=True))


async def make_writable(call: ApiCall, path: BrokerPath) -> BrokerOut:
    """The broker takes sends again, and routes say so."""
    return await _answer(call, await call.broker.broker_lives.set_read_only(path.broker, is_read_only=False))


async def _answer(call: ApiCall, registered: RegisteredBroker) -> BrokerOut:
    return _out(call, registered, await call.broker.held.counts())


def _out(call: ApiCall, registered: RegisteredBroker, held: Mapping[str, int]) -> BrokerOut:
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


def _life(action: str, summary: str, handler: Handler, *, is_body_optional: bool = False) -> Route:
    path, errors = f"/v1/brokers/{{broker}}/{action}", [BrokerNotFoundError, BrokerStateError]
    return Route("POST", path, handler, summary, is_body_optional=is_body_optional, errors=errors)


BROKERS = RouteGroup(
    "brokers",
    "Brokers of the cluster",
    [
        Route("GET", "/v1/brokers", brokers, "List the brokers"),
        _life("crash", "Crash a broker", crash_broker, is_body_optional=True),
        _life("shutdown", "Shut a broker down", shut_down_broker),
        _life("promote", "Promote the slave of a broker", promote_slave),
        _life("start", "Start a broker again", start_broker),
        _life("wipe", "Wipe a broker that is down", wipe_broker),
        _life("cut-off-from-clients", "Cut a broker off from its clients", cut_off_from_clients),
        _life(
            "cut-off-from-name-servers", "Cut a broker off from the name servers", cut_off_from_name_servers
        ),
        _life("reconnect", "Reconnect a broker that is cut off", reconnect_broker),
        _life("read-only", "Make a broker read-only", make_read_only),
        _life("writable", "Make a read-only broker writable again", make_writable),
    ],
)
